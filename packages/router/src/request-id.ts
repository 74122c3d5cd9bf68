/**
 * The id of one request, in `X-Request-Id` on both legs, in the answer and in every log line. A client's
 * id is taken over only when it is well-formed: engines build their own ids of it, which travel in
 * notifications with separators of their own. Pure.
 */
import type { Random } from '@kvferry/connector-api'
import { routerLimits } from './limits.ts'

const wellFormed = /^[A-Za-z0-9._-]+$/

export function chooseRequestId(
  header: string | readonly string[] | undefined,
  random: Random,
): string {
  const isTaken =
    typeof header === 'string' &&
    header.length <= routerLimits.requestIdLengthMax &&
    wellFormed.test(header)
  return isTaken ? header : Buffer.from(random.bytes(16)).toString('hex')
}
