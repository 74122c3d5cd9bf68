/**
 * Small JSON GETs to engines and routers (statistics, models, readiness), bounded in size and time.
 */
import { request } from 'undici'
import { limits } from '../limits.ts'

export interface JsonAnswer {
  readonly status: number
  readonly body: unknown
}

/** Joins the chunks of a body. @throws Error when it is longer than `sizeBytesMax`. */
export async function readText(
  body: AsyncIterable<Uint8Array>,
  sizeBytesMax: number,
): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    size += chunk.byteLength
    if (size > sizeBytesMax) throw new Error(`answer longer than ${sizeBytesMax} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

/** @throws Error on a broken connection, a late answer, or a body that is not JSON (null when empty). */
export async function getJson(url: string): Promise<JsonAnswer> {
  const answer = await request(url, { signal: AbortSignal.timeout(limits.httpTimeoutMs) })
  const text = await readText(answer.body, limits.httpAnswerSizeBytesMax)
  return { status: answer.statusCode, body: text === '' ? null : (JSON.parse(text) as unknown) }
}
