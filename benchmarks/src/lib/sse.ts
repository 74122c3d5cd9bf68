/**
 * Incremental reader of server-sent events, as OpenAI-compatible servers stream them: only `data:` lines
 * matter. Pure: bytes in, complete events out. An event may be cut anywhere between two chunks.
 */
export interface SseParser {
  /** Data of every event that `chunk` completed, in order. */
  push(chunk: Uint8Array): string[]
}

export function createSseParser(): SseParser {
  const decoder = new TextDecoder('utf-8')
  let rest = ''
  let data: string[] = []

  return {
    push(chunk) {
      const events: string[] = []
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n')
      rest = lines.pop() ?? ''
      for (const rawLine of lines) {
        const line = rawLine.endsWith('\r') ? rawLine.slice(0, -1) : rawLine
        if (line === '') {
          if (data.length > 0) events.push(data.join('\n'))
          data = []
        } else if (line.startsWith('data:')) {
          data.push(line.slice(line.startsWith('data: ') ? 6 : 5))
        }
      }
      return events
    },
  }
}
