// What the scripts of all SDKs share: the plan is the last argument, each call is made in one of its lanes, and what was
// seen goes out as one JSON line per call. Nothing is judged here.
import { readFile } from 'node:fs/promises';

const plan = JSON.parse(await readFile(process.argv.at(-1), 'utf8'));

export const toolResult = plan.tool_result;
export const parameters = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] };
export const about = { name: 'weather', description: 'The weather in a city', parameters };

const fresh = (check) => ({
  check, text: '', finish: [], ended: 0, late: 0, usages: 0, prompt_tokens: 0, completion_tokens: 0, total_tokens: 0, ids: 0,
});

// tally adds one answer's usage.
export function tally(seen, prompt, completion, total) {
  seen.usages++;
  seen.prompt_tokens += prompt ?? 0;
  seen.completion_tokens += completion ?? 0;
  seen.total_tokens += total ?? 0;
}

// failure is what was raised. An exception that is not one of the SDK's own tells where it comes from.
export function failure(e, status, own) {
  const message = own ? e.message : `${e.message}\n${e.stack}`;
  return { class: own ? e.constructor.name : e.name, status: status ?? 0, code: String(e.code ?? ''), message };
}

// run makes all calls with make, which fills in what it sees.
export async function run(make) {
  const left = [...plan.calls];
  const lane = async () => {
    for (let call; (call = left.shift()); ) {
      const seen = fresh(call.check);
      await make(call, seen);
      console.log(JSON.stringify(seen));
    }
  };
  await Promise.all(Array.from({ length: plan.lanes }, lane));
}
