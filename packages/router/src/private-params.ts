/**
 * Takes `kv_transfer_params` out of what an engine answers, whole or as events, before a client sees it:
 * they name an engine's memory and are engines' business. What holds none of them passes byte for byte.
 * Pure; used by the decode leg.
 */
const field = 'kv_transfer_params'
/** Inside a JSON string the quotes are escaped, so a text about the field isn't taken for it. */
const mark = `"${field}"`

/** Null when the text isn't an object with that field. */
function withoutField(text: string): string | null {
  let parsed: unknown
  try {
    parsed = JSON.parse(text)
  } catch {
    return null
  }
  if (typeof parsed !== 'object' || parsed === null || !Object.hasOwn(parsed, field)) return null
  const rest: Record<string, unknown> = { ...parsed }
  delete rest[field]
  return JSON.stringify(rest)
}

/** The body of an answer that is not streamed. */
export function answerWithoutParams(text: string): string {
  return text.includes(mark) ? (withoutField(text) ?? text) : text
}

/** Only the event that has them is written anew, as one `data:` line; its other lines stay. */
function eventWithoutParams(event: string): string {
  if (!event.includes(mark)) return event
  const lineEnd = event.includes('\r\n') ? '\r\n' : '\n'
  const lines = event.split(/\r?\n/)
  const isData = (line: string) => line.startsWith('data:')
  const data = lines.filter(isData).map((line) => line.slice('data:'.length).trim())
  const cleaned = withoutField(data.join('\n'))
  if (cleaned === null) return event
  const first = lines.findIndex(isData)
  return lines
    .flatMap((line, index) => (index === first ? [`data: ${cleaned}`] : isData(line) ? [] : [line]))
    .join(lineEnd)
}

/** Whole events, as the event cutter gives them. */
export function eventsWithoutParams(bytes: Buffer): Buffer {
  if (!bytes.includes(mark)) return bytes
  // Odd places are the blank lines between events, kept as they are.
  const parts = bytes.toString('utf8').split(/(\r?\n\r?\n)/)
  return Buffer.from(
    parts.map((part, i) => (i % 2 === 0 ? eventWithoutParams(part) : part)).join(''),
  )
}
