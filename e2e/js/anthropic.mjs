// Makes the calls of a plan with the Anthropic SDK and reports what it saw, one JSON line per call. It judges nothing.
// usage: node anthropic.mjs PACKAGE PLAN.json
import { about, failure, parameters, run, tally, toolResult } from './frame.mjs';

const [pkg] = process.argv.slice(2);
const { default: Anthropic } = await import(pkg);

const tools = [{ name: about.name, description: about.description, input_schema: parameters }];
const count = (seen, u) => tally(seen, u.input_tokens, u.output_tokens, u.input_tokens + u.output_tokens);
const asTool = (b) => ({ id: b.id, name: b.name, arguments: JSON.stringify(b.input) });

async function whole(client, params, seen) {
  const got = await client.messages.create(params);
  seen.text += got.content.filter((b) => b.type === 'text').map((b) => b.text).join('');
  seen.finish.push(got.stop_reason);
  seen.ended++;
  seen.ids++;
  count(seen, got.usage);
  return got.content;
}

// watch notes one event of a stream.
function watch(event, seen, at) {
  if (at.over) seen.late++;
  if (event.type === 'message_start') at.ids.add(event.message.id);
  if (event.type === 'content_block_delta' && event.delta.type === 'text_delta') seen.text += event.delta.text;
  if (event.type === 'message_delta') {
    seen.finish.push(event.delta.stop_reason);
    count(seen, event.usage);
  }
  if (event.type === 'message_stop') {
    at.over = true;
    seen.ended++;
  }
}

// raw reads the events and puts the blocks together by hand; helped leaves that to the SDK, which is strict about order.
async function raw(client, params, seen, at) {
  const blocks = [];
  const json = [];
  for await (const event of await client.messages.create({ ...params, stream: true })) {
    watch(event, seen, at);
    if (event.type === 'content_block_start') blocks[event.index] = { ...event.content_block };
    if (event.delta?.type === 'text_delta') blocks[event.index].text += event.delta.text;
    if (event.delta?.type === 'input_json_delta') json[event.index] = (json[event.index] ?? '') + event.delta.partial_json;
  }
  return blocks.map((b, i) => (b.type === 'tool_use' ? { ...b, input: JSON.parse(json[i]) } : b));
}

async function helped(client, params, seen, at) {
  const stream = client.messages.stream(params);
  for await (const event of stream) watch(event, seen, at);
  return (await stream.finalMessage()).content;
}

async function streamed(client, params, seen, helper) {
  const at = { over: false, ids: new Set() };
  const blocks = await (helper ? helped : raw)(client, params, seen, at);
  seen.ids += at.ids.size;
  return blocks;
}

async function generate(client, call, seen) {
  const one = (messages) => {
    const params = { model: call.model, max_tokens: 1000, messages, tools };
    return call.stream ? streamed(client, params, seen, call.usage) : whole(client, params, seen);
  };
  const messages = [{ role: 'user', content: call.prompt }];
  const said = await one(messages);
  const uses = said.filter((b) => b.type === 'tool_use');
  if (uses.length === 0) return;
  seen.tools = uses.map(asTool);
  const results = uses.map((b) => ({ type: 'tool_result', tool_use_id: b.id, content: toolResult }));
  await one([...messages, { role: 'assistant', content: said }, { role: 'user', content: results }]);
}

await run(async (call, seen) => {
  const client = new Anthropic({ apiKey: call.key, baseURL: call.base, maxRetries: 0, timeout: call.timeout_ms });
  try {
    if (call.do === 'list') {
      seen.models = [];
      for await (const m of client.models.list()) seen.models.push(m.id);
    } else if (call.do === 'model') {
      seen.models = [(await client.models.retrieve(call.model)).id];
    } else if (call.do === 'count') {
      seen.prompt_tokens = (await client.messages.countTokens({ model: call.model, messages: [{ role: 'user', content: call.prompt }] })).input_tokens;
    } else {
      await generate(client, call, seen);
    }
  } catch (e) {
    seen.error = failure(e, e.status, e instanceof Anthropic.AnthropicError);
  }
});
