/** Completion requests against an engine or the router, reduced to what the tests judge: one outcome each. */
export interface CompletionRequest {
  /** Default `tiny`. */
  readonly model?: string
  readonly prompt: string
  readonly maxTokens: number
  readonly stream?: boolean
  /** Aborted: its client is gone; the outcome `LEFT`. */
  readonly signal?: AbortSignal
  /** `X-Request-Id`. Default none: whoever serves it finds one. */
  readonly requestId?: string
}

export type Outcome =
  | { readonly kind: 'text'; readonly text: string }
  | { readonly kind: 'error'; readonly status: number; readonly code: string }

interface ErrorBody {
  readonly error?: { readonly code?: unknown; readonly message?: unknown }
}

function errorOutcome(status: number, body: string): Outcome {
  let parsed: ErrorBody = {}
  try {
    parsed = JSON.parse(body) as ErrorBody
  } catch {
    // An error that isn't ours has no code, and the test says so.
  }
  return {
    kind: 'error',
    status,
    code: String(parsed.error?.code ?? `no code: ${body.slice(0, 200)}`),
  }
}

/** Assembles the text of an SSE answer. A stream without `[DONE]` must have said why. */
function streamOutcome(status: number, body: string): Outcome {
  let text = ''
  for (const event of body.split('\n\n')) {
    if (!event.startsWith('data: ')) continue
    const data = event.slice('data: '.length)
    if (data === '[DONE]') return { kind: 'text', text }
    const chunk = JSON.parse(data) as ErrorBody & { choices?: { text: string }[] }
    if (chunk.error) return errorOutcome(status, data)
    text += chunk.choices?.[0]?.text ?? ''
  }
  return { kind: 'error', status, code: 'TRUNCATED' }
}

/** Never rejects for what a server did; `timeoutMs` without an answer is the outcome `TIMEOUT`. */
export async function complete(
  url: string,
  request: CompletionRequest,
  timeoutMs = 60_000,
): Promise<Outcome> {
  const given = request.signal === undefined ? [] : [request.signal]
  try {
    const response = await fetch(`${url}/v1/completions`, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        ...(request.requestId === undefined ? {} : { 'x-request-id': request.requestId }),
      },
      body: JSON.stringify({
        model: request.model ?? 'tiny',
        prompt: request.prompt,
        max_tokens: request.maxTokens,
        stream: request.stream ?? false,
      }),
      signal: AbortSignal.any([AbortSignal.timeout(timeoutMs), ...given]),
    })
    const body = await response.text()
    if (response.status !== 200) return errorOutcome(response.status, body)
    if (request.stream) return streamOutcome(response.status, body)
    const parsed = JSON.parse(body) as { choices: { text: string }[] }
    return { kind: 'text', text: parsed.choices[0]?.text ?? '' }
  } catch (error) {
    const { name } = error as Error
    const known = { TimeoutError: 'TIMEOUT', AbortError: 'LEFT' }[name]
    return { kind: 'error', status: 0, code: known ?? `CONNECTION: ${String(error)}` }
  }
}

/** Scrambles 32 bits (the finalizer of MurmurHash3), so that neighbouring seeds give unlike prompts. */
function scramble(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b)
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35)
  return (bits ^ (bits >>> 16)) >>> 0
}

/** `count` printable characters that differ per `seed`, so that no prompt shares a block with another. */
export function promptOf(count: number, seed: number): string {
  const letters = Array.from({ length: count }, (_, index) => {
    const bits = scramble(scramble(seed + 1) + index)
    return String.fromCharCode(97 + (bits % 26))
  })
  return letters.join('')
}
