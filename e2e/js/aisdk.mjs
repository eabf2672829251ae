// Makes the calls of a plan with one generation of Vercel's AI SDK and one of its providers, and reports what it saw, one
// JSON line per call. It judges nothing. usage: node aisdk.mjs GENERATION PLAN.json, where GENERATION is ai-v6 or ai-v7.
import { about, failure, parameters, run, tally, toolResult } from './frame.mjs';

const [generation] = process.argv.slice(2);
const load = (name) => import(generation + name);
const { generateText, streamText, embedMany, jsonSchema, tool, APICallError } = await load('');
const { createOpenAI } = await load('-openai');
const { createAnthropic } = await load('-anthropic');
const { createGoogleGenerativeAI } = await load('-google');
const { createOpenAICompatible } = await load('-openai-compatible');

globalThis.AI_SDK_LOG_WARNINGS = false; // they go to stdout

const tools = { weather: tool({ description: about.description, inputSchema: jsonSchema(parameters) }) };
const asTool = (t) => ({ id: t.toolCallId, name: t.toolName, arguments: JSON.stringify(t.input) });

const makers = {
  chat: createOpenAI, responses: createOpenAI, messages: createAnthropic, gemini: createGoogleGenerativeAI,
  compatible: (o) => createOpenAICompatible({ ...o, name: 'gateway', includeUsage: true }),
};
// model is the provider's way to the API that the call names: only OpenAI's has two.
const model = (provider, call) => (provider[call.api] ?? provider)(call.model);

const count = (seen, u) => tally(seen, u.inputTokens, u.outputTokens, u.totalTokens);

async function whole(params, seen) {
  const got = await generateText(params);
  seen.text += got.text;
  seen.finish.push(got.finishReason);
  seen.ended++;
  seen.ids += got.response.id ? 1 : 0;
  count(seen, got.usage);
  return { calls: got.toolCalls, said: got.response.messages };
}

async function streamed(params, seen) {
  let raised;
  const got = streamText({ ...params, onError: () => {} });
  const calls = [];
  for await (const part of got.fullStream) {
    if (part.type === 'text-delta') seen.text += part.text;
    if (part.type === 'tool-call') calls.push(part);
    if (part.type === 'error') raised ??= { error: part.error };
    if (part.type === 'abort') raised ??= { error: Object.assign(new Error('aborted'), { name: 'TimeoutError' }) };
    if (part.type === 'finish-step' && !raised) {
      seen.ended++;
      seen.finish.push(part.finishReason);
      seen.ids += part.response.id ? 1 : 0;
      count(seen, part.usage);
    }
  }
  if (raised) throw raised.error;
  return { calls, said: (await got.response).messages };
}

async function generate(model, call, seen) {
  const one = (messages) =>
    (call.stream ? streamed : whole)({ model, messages, tools, maxRetries: 0, abortSignal: AbortSignal.timeout(call.timeout_ms) }, seen);
  const messages = [{ role: 'user', content: call.prompt }];
  const { calls, said } = await one(messages);
  if (calls.length === 0) return;
  seen.tools = calls.map(asTool);
  const results = calls.map((t) => ({
    type: 'tool-result', toolCallId: t.toolCallId, toolName: t.toolName, output: { type: 'json', value: JSON.parse(toolResult) },
  }));
  await one([...messages, ...said, { role: 'tool', content: results }]);
}

// told makes an exception of what a provider hands on as the error of a stream: some give an object, some a text.
const told = (e) => (e instanceof Error ? e : Object.assign(new Error(e?.message ?? e?.error?.message ?? JSON.stringify(e)), { name: 'told' }));

await run(async (call, seen) => {
  const provider = makers[call.api]({ apiKey: call.key, baseURL: call.base });
  try {
    if (call.do === 'embed') {
      const { embeddings } = await embedMany({ model: provider.embeddingModel(call.model), values: [call.prompt, 'two'], maxRetries: 0 });
      seen.vectors = embeddings.map((e) => e.length);
    } else {
      await generate(model(provider, call), call, seen);
    }
  } catch (e) {
    seen.error = failure(told(e), e?.statusCode, APICallError.isInstance(e));
  }
});
