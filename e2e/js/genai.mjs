// Makes the calls of a plan with one generation of the Google Gen AI SDK and reports what it saw, one JSON line per call.
// It judges nothing. usage: node genai.mjs PACKAGE PLAN.json
import { about, failure, parameters, run, tally, toolResult } from './frame.mjs';

const [pkg] = process.argv.slice(2);
const { GoogleGenAI, ApiError } = await import(pkg);

const tools = [{ functionDeclarations: [{ name: about.name, description: about.description, parametersJsonSchema: parameters }] }];
const asTool = (p) => ({ id: p.functionCall.id ?? '', name: p.functionCall.name, arguments: JSON.stringify(p.functionCall.args) });

// watch notes one answer or one chunk of a stream and returns its parts.
function watch(chunk, seen, at) {
  if (chunk.responseId) at.ids.add(chunk.responseId);
  if (chunk.usageMetadata) at.usage = chunk.usageMetadata;
  const c = chunk.candidates?.[0];
  const parts = (c?.content?.parts ?? []).filter((p) => p.text !== '');
  if (at.over && parts.length > 0) seen.late++;
  seen.text += parts.map((p) => p.text ?? '').join('');
  if (c?.finishReason) {
    at.over = true;
    seen.ended++;
    seen.finish.push(c.finishReason);
  }
  return parts;
}

async function one(client, call, contents, seen) {
  const params = { model: call.model, contents, config: { tools } };
  const at = { ids: new Set(), over: false, usage: undefined };
  const parts = [];
  if (call.stream) {
    for await (const chunk of await client.models.generateContentStream(params)) parts.push(...watch(chunk, seen, at));
  } else {
    parts.push(...watch(await client.models.generateContent(params), seen, at));
  }
  seen.ids += at.ids.size;
  const u = at.usage;
  if (u) tally(seen, u.promptTokenCount, u.candidatesTokenCount, u.totalTokenCount);
  return parts;
}

async function generate(client, call, seen) {
  const contents = [{ role: 'user', parts: [{ text: call.prompt }] }];
  const said = await one(client, call, contents, seen);
  const calls = said.filter((p) => p.functionCall);
  if (calls.length === 0) return;
  seen.tools = calls.map(asTool);
  const results = calls.map(({ functionCall: f }) => ({ functionResponse: { id: f.id, name: f.name, response: JSON.parse(toolResult) } }));
  await one(client, call, [...contents, { role: 'model', parts: said }, { role: 'user', parts: results }], seen);
}

await run(async (call, seen) => {
  const client = new GoogleGenAI({ apiKey: call.key, httpOptions: { baseUrl: call.base, timeout: call.timeout_ms } });
  try {
    if (call.do === 'list') {
      seen.models = [];
      for await (const m of await client.models.list()) seen.models.push(m.name.replace(/^models\//, ''));
    } else if (call.do === 'model') {
      seen.models = [(await client.models.get({ model: call.model })).name.replace(/^models\//, '')];
    } else if (call.do === 'count') {
      seen.prompt_tokens = (await client.models.countTokens({ model: call.model, contents: call.prompt })).totalTokens;
    } else if (call.do === 'embed') {
      seen.vectors = (await client.models.embedContent({ model: call.model, contents: [call.prompt, 'two'] })).embeddings.map((e) => e.values.length);
    } else {
      await generate(client, call, seen);
    }
  } catch (e) {
    seen.error = failure(e, e.status, e instanceof ApiError);
  }
});
