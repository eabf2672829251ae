package config

// The services, with the base URL that the protocol's SDK would take. Catalogues are short on purpose: they let a bare
// model name find its provider before the upstream was asked for its own list.

func presetTable() []Preset {
	return []Preset{
		{Name: "openai", Protocols: "openai responses", BaseURL: "https://api.openai.com/v1", Env: []string{"OPENAI_API_KEY"}, BaseEnv: "OPENAI_BASE_URL", Auto: true,
			Models: "gpt-5.5 gpt-5.4 gpt-5.4-mini gpt-5.4-nano gpt-5.3-codex gpt-5.2 gpt-5.1 gpt-5 gpt-5-mini gpt-5-nano gpt-4.1 gpt-4.1-mini gpt-4o gpt-4o-mini o3 o4-mini text-embedding-3-small text-embedding-3-large " +
				"text-embedding-ada-002 omni-moderation-latest gpt-image-1 gpt-image-1-mini dall-e-3 dall-e-2 tts-1 tts-1-hd gpt-4o-mini-tts whisper-1 gpt-4o-transcribe gpt-4o-mini-transcribe"},
		{Name: "anthropic", Protocols: "anthropic", BaseURL: "https://api.anthropic.com", Env: []string{"ANTHROPIC_API_KEY"}, BaseEnv: "ANTHROPIC_BASE_URL", Auto: true,
			Models: "claude-opus-5 claude-opus-4-8 claude-opus-4-7 claude-opus-4-6 claude-opus-4-5 claude-sonnet-5 claude-sonnet-4-6 claude-sonnet-4-5 claude-haiku-4-5"},
		{Name: "gemini", Protocols: "gemini", BaseURL: "https://generativelanguage.googleapis.com", Env: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, Auto: true, PerModelQuota: true,
			Models: "gemini-3.7-flash gemini-3.6-flash gemini-3.5-flash gemini-3.5-flash-lite gemini-3-pro-preview gemini-3-flash-preview gemini-2.5-pro gemini-2.5-flash gemini-embedding-001"},
		{Name: "openrouter", Protocols: "openai", BaseURL: "https://openrouter.ai/api/v1", Env: []string{"OPENROUTER_API_KEY"}, Auto: true, PerModelQuota: true},
		{Name: "groq", Protocols: "openai", BaseURL: "https://api.groq.com/openai/v1", Env: []string{"GROQ_API_KEY"}, Auto: true, PerModelQuota: true},
		{Name: "mistral", Protocols: "openai", BaseURL: "https://api.mistral.ai/v1", Env: []string{"MISTRAL_API_KEY"}, Auto: true, NoStreamOptions: true,
			Models: "mistral-large-latest mistral-medium-latest mistral-small-latest codestral-latest devstral-latest"},
		{Name: "deepseek", Protocols: "openai", BaseURL: "https://api.deepseek.com/v1", Env: []string{"DEEPSEEK_API_KEY"}, Auto: true, Models: "deepseek-v4-flash deepseek-v4-pro deepseek-chat deepseek-reasoner"},
		{Name: "xai", Protocols: "openai responses", BaseURL: "https://api.x.ai/v1", Env: []string{"XAI_API_KEY"}, Auto: true, Models: "grok-4.6 grok-4.5 grok-4.3 grok-4.20"},
		{Name: "together", Protocols: "openai", BaseURL: "https://api.together.xyz/v1", Env: []string{"TOGETHER_API_KEY"}, Auto: true},
		{Name: "fireworks", Protocols: "openai", BaseURL: "https://api.fireworks.ai/inference/v1", Env: []string{"FIREWORKS_API_KEY"}, Auto: true},
		{Name: "cerebras", Protocols: "openai", BaseURL: "https://api.cerebras.ai/v1", Env: []string{"CEREBRAS_API_KEY"}, Auto: true, PerModelQuota: true},
		{Name: "sambanova", Protocols: "openai", BaseURL: "https://api.sambanova.ai/v1", Env: []string{"SAMBANOVA_API_KEY"}, Auto: true, PerModelQuota: true},
		{Name: "nvidia", Protocols: "openai", BaseURL: "https://integrate.api.nvidia.com/v1", Env: []string{"NVIDIA_API_KEY"}, Auto: true},
		{Name: "cohere", Protocols: "openai", BaseURL: "https://api.cohere.ai/compatibility/v1", Env: []string{"COHERE_API_KEY", "CO_API_KEY"}, Auto: true},
		{Name: "perplexity", Protocols: "openai", BaseURL: "https://api.perplexity.ai", Env: []string{"PERPLEXITY_API_KEY"}, Auto: true, Models: "sonar sonar-pro sonar-reasoning-pro"},
		{Name: "huggingface", Protocols: "openai", BaseURL: "https://router.huggingface.co/v1", Env: []string{"HF_TOKEN"}},
		{Name: "github-models", Protocols: "openai", BaseURL: "https://models.github.ai/inference", Env: []string{"GITHUB_MODELS_TOKEN"}, Auto: true, PerModelQuota: true},
		{Name: "moonshot", Protocols: "openai", BaseURL: "https://api.moonshot.ai/v1", Env: []string{"MOONSHOT_API_KEY", "KIMI_API_KEY"}, Auto: true, Models: "kimi-k3 kimi-k2.7-code kimi-k2.6 kimi-k2.5"},
		{Name: "glm", Protocols: "openai", BaseURL: "https://open.bigmodel.cn/api/paas/v4", Env: []string{"ZHIPU_API_KEY", "ZHIPUAI_API_KEY"}, Auto: true, Models: "glm-5.3 glm-5.1 glm-5-turbo glm-5 glm-4.7 glm-4.6 glm-4.5 glm-4.5-air"},
		{Name: "zai", Protocols: "openai", BaseURL: "https://api.z.ai/api/paas/v4", Env: []string{"ZAI_API_KEY"}, Auto: true, Models: "glm-5.3 glm-5.2 glm-5.1 glm-5-turbo glm-5 glm-4.7 glm-4.6 glm-4.5 glm-4.5-air"},
		{Name: "minimax", Protocols: "openai", BaseURL: "https://api.minimax.io/v1", Env: []string{"MINIMAX_API_KEY"}, Auto: true, Models: "MiniMax-M3 MiniMax-M2.7 MiniMax-M2.5 MiniMax-M2.1 MiniMax-M2"},
		{Name: "qwen", Protocols: "openai", BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1", Env: []string{"DASHSCOPE_API_KEY"}, Auto: true, Models: "qwen3.8-max qwen3.7-max qwen3.7-plus qwen3.6-plus qwen3.6-flash"},
		{Name: "siliconflow", Protocols: "openai", BaseURL: "https://api.siliconflow.cn/v1", Env: []string{"SILICONFLOW_API_KEY"}, Auto: true},
		{Name: "volcengine", Protocols: "openai", BaseURL: "https://ark.cn-beijing.volces.com/api/v3", Env: []string{"ARK_API_KEY"}, Auto: true},
		{Name: "hunyuan", Protocols: "openai", BaseURL: "https://api.hunyuan.cloud.tencent.com/v1", Env: []string{"HUNYUAN_API_KEY"}, Auto: true},
		{Name: "stepfun", Protocols: "openai", BaseURL: "https://api.stepfun.com/v1", Env: []string{"STEPFUN_API_KEY", "STEP_API_KEY"}, Auto: true},
		{Name: "baichuan", Protocols: "openai", BaseURL: "https://api.baichuan-ai.com/v1", Env: []string{"BAICHUAN_API_KEY"}, Auto: true},
		{Name: "qianfan", Protocols: "openai", BaseURL: "https://qianfan.baidubce.com/v2", Env: []string{"QIANFAN_API_KEY"}, Auto: true},
		{Name: "spark", Protocols: "openai", BaseURL: "https://spark-api-open.xf-yun.com/v1", Env: []string{"SPARK_API_KEY"}, Auto: true},
		{Name: "modelscope", Protocols: "openai", BaseURL: "https://api-inference.modelscope.cn/v1", Env: []string{"MODELSCOPE_API_KEY"}, Auto: true, PerModelQuota: true},
		{Name: "ai21", Protocols: "openai", BaseURL: "https://api.ai21.com/studio/v1", Env: []string{"AI21_API_KEY"}, Auto: true},
		{Name: "deepinfra", Protocols: "openai", BaseURL: "https://api.deepinfra.com/v1/openai", Env: []string{"DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN"}, Auto: true},
		{Name: "novita", Protocols: "openai", BaseURL: "https://api.novita.ai/v3/openai", Env: []string{"NOVITA_API_KEY"}, Auto: true},
		{Name: "hyperbolic", Protocols: "openai", BaseURL: "https://api.hyperbolic.xyz/v1", Env: []string{"HYPERBOLIC_API_KEY"}, Auto: true},
		{Name: "nebius", Protocols: "openai", BaseURL: "https://api.tokenfactory.nebius.com/v1", Env: []string{"NEBIUS_API_KEY"}, Auto: true},
		{Name: "baseten", Protocols: "openai", BaseURL: "https://inference.baseten.co/v1", Env: []string{"BASETEN_API_KEY"}, Auto: true},
		{Name: "chutes", Protocols: "openai", BaseURL: "https://llm.chutes.ai/v1", Env: []string{"CHUTES_API_KEY"}, Auto: true},
		{Name: "aihubmix", Protocols: "openai", BaseURL: "https://aihubmix.com/v1", Env: []string{"AIHUBMIX_API_KEY"}, Auto: true},
		{Name: "agentrouter", Protocols: "openai", BaseURL: "https://agentrouter.org/v1", Env: []string{"AGENTROUTER_API_KEY", "AGENT_ROUTER_TOKEN"}, Auto: true, PerModelQuota: true},
		{Name: "scaleway", Protocols: "openai", BaseURL: "https://api.scaleway.ai/v1", Env: []string{"SCW_SECRET_KEY"}},
		{Name: "synthetic", Protocols: "openai", BaseURL: "https://api.synthetic.new/openai/v1", Env: []string{"SYNTHETIC_API_KEY"}, Auto: true},
		{Name: "venice", Protocols: "openai", BaseURL: "https://api.venice.ai/api/v1", Env: []string{"VENICE_API_KEY"}, Auto: true},
		{Name: "vercel", Protocols: "openai", BaseURL: "https://ai-gateway.vercel.sh/v1", Env: []string{"AI_GATEWAY_API_KEY", "VERCEL_API_KEY"}, Auto: true},
		{Name: "opencode-zen", Protocols: "openai", BaseURL: "https://opencode.ai/zen/v1", Env: []string{"OPENCODE_API_KEY"}, Auto: true},
		{Name: "ionet", Protocols: "openai", BaseURL: "https://api.intelligence.io.solutions/api/v1", Env: []string{"IONET_API_KEY"}, Auto: true},
		{Name: "upstage", Protocols: "openai", BaseURL: "https://api.upstage.ai/v1", Env: []string{"UPSTAGE_API_KEY"}, Auto: true},
		{Name: "voyage", Protocols: "openai", BaseURL: "https://api.voyageai.com/v1", Env: []string{"VOYAGE_API_KEY"}, Auto: true, Models: "voyage-3.5 voyage-3.5-lite voyage-code-3"},
		{Name: "jina", Protocols: "openai", BaseURL: "https://api.jina.ai/v1", Env: []string{"JINA_API_KEY"}, Auto: true, Models: "jina-embeddings-v3 jina-embeddings-v4"},
	}
}

// regionalTable holds second entrances to a service (another protocol or region) and services whose URL holds a part
// that differs per user. None of them starts by itself.
func regionalTable() []Preset {
	return []Preset{
		{Name: "azure", Protocols: "openai responses", BaseURL: "https://${AZURE_OPENAI_RESOURCE}.openai.azure.com/openai/v1", Env: []string{"AZURE_OPENAI_API_KEY"}, AuthHeader: "api-key", PerModelQuota: true},
		{Name: "bedrock", Protocols: "openai", BaseURL: "https://bedrock-runtime.${AWS_REGION:-us-east-1}.amazonaws.com/openai/v1", Env: []string{"AWS_BEARER_TOKEN_BEDROCK"}, PerModelQuota: true},
		{Name: "vertex", Protocols: "openai", BaseURL: "https://aiplatform.googleapis.com/v1/projects/${GOOGLE_CLOUD_PROJECT}/locations/${GOOGLE_CLOUD_LOCATION:-global}/endpoints/openapi", Class: "oauth", PerModelQuota: true},
		{Name: "cloudflare", Protocols: "openai", BaseURL: "https://api.cloudflare.com/client/v4/accounts/${CLOUDFLARE_ACCOUNT_ID}/ai/v1", Env: []string{"CLOUDFLARE_API_TOKEN"}},
		{Name: "databricks", Protocols: "openai", BaseURL: "https://${DATABRICKS_HOST}/serving-endpoints", Env: []string{"DATABRICKS_TOKEN"}, PerModelQuota: true},
		{Name: "gemini-openai", Protocols: "openai", BaseURL: "https://generativelanguage.googleapis.com/v1beta/openai", Env: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}, PerModelQuota: true},
		{Name: "deepseek-anthropic", Protocols: "anthropic", BaseURL: "https://api.deepseek.com/anthropic", Env: []string{"DEEPSEEK_API_KEY"}, Models: "deepseek-v4-flash deepseek-v4-pro deepseek-chat deepseek-reasoner"},
		{Name: "moonshot-cn", Protocols: "openai", BaseURL: "https://api.moonshot.cn/v1", Env: []string{"MOONSHOT_API_KEY"}, Models: "kimi-k3 kimi-k2.7-code kimi-k2.6 kimi-k2.5"},
		{Name: "moonshot-anthropic", Protocols: "anthropic", BaseURL: "https://api.moonshot.ai/anthropic", Env: []string{"MOONSHOT_API_KEY", "KIMI_API_KEY"}, Models: "kimi-k3 kimi-k2.7-code kimi-k2.6 kimi-k2.5"},
		{Name: "kimi-coding", Protocols: "anthropic", BaseURL: "https://api.kimi.com/coding", Env: []string{"KIMI_CODING_API_KEY"}, Models: "kimi-for-coding kimi-for-coding-highspeed"},
		{Name: "glm-anthropic", Protocols: "anthropic", BaseURL: "https://open.bigmodel.cn/api/anthropic", Env: []string{"ZHIPU_API_KEY", "ZHIPUAI_API_KEY"}, Models: "glm-5.3 glm-5.1 glm-5 glm-4.7 glm-4.6 glm-4.5-air"},
		{Name: "glm-coding", Protocols: "openai", BaseURL: "https://open.bigmodel.cn/api/coding/paas/v4", Env: []string{"ZHIPU_API_KEY", "ZHIPUAI_API_KEY"}, Models: "glm-5.3 glm-5.2 glm-5.1 glm-5-turbo glm-5 glm-4.7"},
		{Name: "zai-anthropic", Protocols: "anthropic", BaseURL: "https://api.z.ai/api/anthropic", Env: []string{"ZAI_API_KEY"}, Models: "glm-5.3 glm-5.2 glm-5.1 glm-5 glm-4.7"},
		{Name: "zai-coding", Protocols: "openai", BaseURL: "https://api.z.ai/api/coding/paas/v4", Env: []string{"ZAI_API_KEY"}, Models: "glm-5.3 glm-5.2 glm-5.1 glm-5-turbo glm-5 glm-4.7"},
		{Name: "minimax-cn", Protocols: "openai", BaseURL: "https://api.minimaxi.com/v1", Env: []string{"MINIMAX_API_KEY"}, Models: "MiniMax-M3 MiniMax-M2.7 MiniMax-M2.5"},
		{Name: "minimax-anthropic", Protocols: "anthropic", BaseURL: "https://api.minimax.io/anthropic", Env: []string{"MINIMAX_API_KEY"}, Models: "MiniMax-M3 MiniMax-M2.7 MiniMax-M2.5"},
		{Name: "minimax-cn-anthropic", Protocols: "anthropic", BaseURL: "https://api.minimaxi.com/anthropic", Env: []string{"MINIMAX_API_KEY"}, Models: "MiniMax-M3 MiniMax-M2.7 MiniMax-M2.5"},
		{Name: "qwen-intl", Protocols: "openai", BaseURL: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1", Env: []string{"ALIBABA_SINGAPORE_API_KEY", "DASHSCOPE_API_KEY"}, Models: "qwen3.8-max qwen3.7-max qwen3.7-plus"},
		{Name: "qwen-us", Protocols: "openai", BaseURL: "https://dashscope-us.aliyuncs.com/compatible-mode/v1", Env: []string{"ALIBABA_US_API_KEY", "DASHSCOPE_API_KEY"}},
		{Name: "siliconflow-intl", Protocols: "openai", BaseURL: "https://api.siliconflow.com/v1", Env: []string{"SILICONFLOW_API_KEY"}},
		{Name: "opencode-go", Protocols: "openai", BaseURL: "https://opencode.ai/zen/go/v1", Env: []string{"OPENCODE_API_KEY"}},
	}
}

// localTable holds servers on the owner's machine or network: no key, one host, slow first tokens.
func localTable() []Preset {
	return []Preset{
		{Name: "ollama", Protocols: "openai", BaseURL: "http://127.0.0.1:11434/v1", Class: "local", BaseEnv: "OLLAMA_HOST", Auto: true},
		{Name: "llamacpp", Protocols: "openai", BaseURL: "http://127.0.0.1:8080/v1", Class: "local", BaseEnv: "LLAMACPP_HOST", Auto: true},
		{Name: "vllm", Protocols: "openai", BaseURL: "http://127.0.0.1:8000/v1", Class: "local", BaseEnv: "VLLM_HOST", Auto: true},
		{Name: "lmstudio", Protocols: "openai", BaseURL: "http://127.0.0.1:1234/v1", Class: "local", BaseEnv: "LMSTUDIO_HOST", Auto: true},
		{Name: "sglang", Protocols: "openai", BaseURL: "http://127.0.0.1:30000/v1", Class: "local", BaseEnv: "SGLANG_HOST", Auto: true},
		{Name: "localai", Protocols: "openai", BaseURL: "http://127.0.0.1:8080/v1", Class: "local", BaseEnv: "LOCALAI_HOST", Auto: true},
		{Name: "jan", Protocols: "openai", BaseURL: "http://127.0.0.1:1337/v1", Class: "local", BaseEnv: "JAN_HOST", Auto: true},
	}
}
