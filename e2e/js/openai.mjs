// Makes the calls of a plan with one generation of the OpenAI SDK and reports what it saw, one JSON line per call. It
// judges nothing. usage: node openai.mjs PACKAGE PLAN.json
import { about, failure, run, toolResult } from './frame.mjs';

const [pkg] = process.argv.slice(2);
const { default: OpenAI } = await import(pkg);

const chatTools = [{ type: 'function', function: about }];
const responseTools = [{ type: 'function', strict: false, ...about }];

function count(seen, usage) {
  if (!usage) return;
  seen.usages++;
  seen.prompt_tokens += usage.prompt_tokens ?? usage.input_tokens;
  seen.completion_tokens += usage.completion_tokens ?? usage.output_tokens;
  seen.total_tokens += usage.total_tokens;
}

// chatWhole and its like serve one request and return the tool calls that came, in a form of our own, and what the
// next request must hold to answer them.
async function chatWhole(client, call, messages, seen) {
  const got = await client.chat.completions.create({ model: call.model, messages, tools: chatTools });
  const choice = got.choices[0];
  seen.text += choice.message.content ?? '';
  seen.finish.push(choice.finish_reason);
  seen.ended++;
  seen.ids++;
  count(seen, got.usage);
  const tools = (choice.message.tool_calls ?? []).map((t) => ({ id: t.id, name: t.function.name, arguments: t.function.arguments }));
  return { tools, said: [choice.message] };
}

async function chatStream(client, call, messages, seen) {
  const options = call.usage ? { stream_options: { include_usage: true } } : {};
  const stream = await client.chat.completions.create({ model: call.model, messages, tools: chatTools, stream: true, ...options });
  const ids = new Set();
  const tools = [];
  let text = '';
  let over = false;
  for await (const chunk of stream) {
    ids.add(chunk.id);
    count(seen, chunk.usage);
    for (const { delta, finish_reason } of chunk.choices) {
      if (over && (delta?.content || delta?.tool_calls)) seen.late++;
      text += delta?.content ?? '';
      seen.text += delta?.content ?? '';
      for (const t of delta?.tool_calls ?? []) {
        const at = (tools[t.index] ??= { id: '', name: '', arguments: '' });
        at.id ||= t.id;
        at.name ||= t.function?.name;
        at.arguments += t.function?.arguments ?? '';
      }
      if (finish_reason) {
        over = true;
        seen.ended++;
        seen.finish.push(finish_reason);
      }
    }
  }
  seen.ids += ids.size;
  const tool_calls = tools.map((t) => ({ id: t.id, type: 'function', function: { name: t.name, arguments: t.arguments } }));
  return { tools, said: [{ role: 'assistant', content: text || null, ...(tools.length ? { tool_calls } : {}) }] };
}

const functionCalls = (output) => output.filter((o) => o.type === 'function_call');
const asTool = (o) => ({ id: o.call_id, name: o.name, arguments: o.arguments });

async function responseWhole(client, call, input, seen) {
  const got = await client.responses.create({ model: call.model, input, tools: responseTools });
  seen.text += got.output_text;
  seen.finish.push(got.status);
  seen.ended++;
  seen.ids++;
  count(seen, got.usage);
  return { tools: functionCalls(got.output).map(asTool), said: got.output };
}

async function responseStream(client, call, input, seen) {
  const stream = await client.responses.create({ model: call.model, input, tools: responseTools, stream: true });
  let last;
  const ids = new Set();
  for await (const event of stream) {
    if (last) seen.late++;
    if (event.response) ids.add(event.response.id);
    if (event.type === 'response.output_text.delta') seen.text += event.delta;
    if (['response.completed', 'response.incomplete', 'response.failed'].includes(event.type)) {
      last = event.response;
      seen.ended++;
      seen.finish.push(last.status);
    }
  }
  seen.ids += ids.size;
  if (last?.status === 'failed') {
    seen.error = { class: 'response.failed', status: 0, code: last.error?.code ?? '', message: last.error?.message ?? '' };
  }
  count(seen, last?.usage);
  return { tools: functionCalls(last?.output ?? []).map(asTool), said: last?.output ?? [] };
}

const ways = {
  chat: {
    whole: chatWhole, stream: chatStream,
    result: (t) => ({ role: 'tool', tool_call_id: t.id, content: toolResult }),
  },
  responses: {
    whole: responseWhole, stream: responseStream,
    result: (t) => ({ type: 'function_call_output', call_id: t.id, output: toolResult }),
  },
};

async function generate(client, call, seen) {
  const way = ways[call.api];
  const one = call.stream ? way.stream : way.whole;
  const messages = [{ role: 'user', content: call.prompt }];
  const { tools, said } = await one(client, call, messages, seen);
  if (tools.length === 0) return;
  seen.tools = tools;
  await one(client, call, [...messages, ...said, ...tools.map(way.result)], seen);
}

await run(async (call, seen) => {
  const client = new OpenAI({ apiKey: call.key, baseURL: call.base, maxRetries: 0, timeout: call.timeout_ms });
  try {
    if (call.do === 'list') {
      seen.models = [];
      for await (const m of client.models.list()) seen.models.push(m.id);
    } else if (call.do === 'model') {
      seen.models = [(await client.models.retrieve(call.model)).id];
    } else if (call.do === 'embed') {
      seen.vectors = (await client.embeddings.create({ model: call.model, input: [call.prompt, 'two'] })).data.map((e) => e.embedding.length);
    } else {
      await generate(client, call, seen);
    }
  } catch (e) {
    seen.error = failure(e, e.status, e instanceof OpenAI.OpenAIError);
  }
});
