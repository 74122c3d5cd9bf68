/** One completion straight at an engine, as the router asks for it: with params, and with the params that come back. */
import type { CompletionRequest } from './completions.ts'

export type Params = Readonly<Record<string, unknown>>

export interface EngineAnswer {
  readonly text: string
  readonly params: Params | null
}

/** What asks an engine to compute a prompt for another one. */
export const forAnother: Params = { do_remote_decode: true, do_remote_prefill: false }

/** @throws Error for any answer but 200. */
export async function askEngine(
  url: string,
  { model = 'tiny', prompt, maxTokens }: CompletionRequest,
  params: Params | null,
): Promise<EngineAnswer> {
  const response = await fetch(`${url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ model, prompt, max_tokens: maxTokens, kv_transfer_params: params }),
    signal: AbortSignal.timeout(60_000),
  })
  const body = await response.text()
  if (response.status !== 200) throw new Error(`${response.status}: ${body.slice(0, 500)}`)
  const answer = JSON.parse(body) as {
    choices: { text: string }[]
    kv_transfer_params: Params | null
  }
  return { text: answer.choices[0]?.text ?? '', params: answer.kv_transfer_params }
}
