/**
 * Reads a trace: one JSON object a line with `timestamp` (ms), `input_length`, `output_length` and
 * `hash_ids`. Refuses what it doesn't understand with the line and the field.
 */
import { createReadStream } from 'node:fs'
import { createInterface } from 'node:readline'
import { UsageError } from '../usage-error.ts'
import type { TraceRequest } from './trace-request.ts'

const idMax = 0xffff_ffff
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && Number(value) >= 0

/** @throws UsageError for a file that can't be read or is no trace. */
export async function readTrace(path: string): Promise<TraceRequest[]> {
  const requests: TraceRequest[] = []
  const input = createReadStream(path, 'utf8')
  const lines = createInterface({ input, crlfDelay: Infinity })
  let lineNumber = 0
  try {
    for await (const line of lines) {
      lineNumber += 1
      if (line.trim() === '') continue
      const request = parseLine(line, `${path}:${lineNumber}`)
      const previous = requests.at(-1)?.timestampMs ?? 0
      if (request.timestampMs < previous) {
        throw new UsageError(
          `${path}:${lineNumber}: timestamp ${request.timestampMs} is before ${previous}`,
        )
      }
      requests.push(request)
    }
  } catch (error) {
    if (error instanceof UsageError) throw error
    throw new UsageError(`trace ${path}: ${error instanceof Error ? error.message : String(error)}`)
  } finally {
    lines.close()
    input.destroy()
  }
  if (requests.length === 0) throw new UsageError(`trace ${path}: no request in it`)
  return requests
}

function parseLine(line: string, where: string): TraceRequest {
  let value: unknown
  try {
    value = JSON.parse(line)
  } catch {
    throw new UsageError(`${where}: no JSON; a trace has one object a line`)
  }
  const fields = Object(value) as Record<string, unknown>
  const count = (name: string): number => {
    const found = fields[name]
    if (isCount(found)) return found
    throw new UsageError(
      `${where}: ${name} is ${JSON.stringify(found)}, not a non-negative integer`,
    )
  }
  const ids = fields['hash_ids']
  const isList = Array.isArray(ids) && ids.every((id) => isCount(id) && id <= idMax)
  if (!isList) throw new UsageError(`${where}: hash_ids is no list of integers from 0 to ${idMax}`)
  return {
    timestampMs: count('timestamp'),
    inputLength: count('input_length'),
    outputLength: count('output_length'),
    blockIds: Uint32Array.from(ids as number[]),
  }
}
