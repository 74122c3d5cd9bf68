import { describe, expect, it } from 'vitest'
import { createSseParser } from '../src/lib/sse.ts'

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text)

describe('createSseParser', () => {
  const text = ': hello\r\ndata: {"a":"é"}\r\n\r\nevent: x\ndata:one\ndata: two\n\ndata: [DONE]\n\n'
  const events = ['{"a":"é"}', 'one\ntwo', '[DONE]']

  it('reads events from one chunk', () => {
    expect(createSseParser().push(bytes(text))).toEqual(events)
  })

  it('reads the same events however the bytes are cut', () => {
    const all = bytes(text)
    for (let size = 1; size < all.length; size++) {
      const parser = createSseParser()
      const seen: string[] = []
      for (let at = 0; at < all.length; at += size) {
        seen.push(...parser.push(all.subarray(at, at + size)))
      }
      expect(seen, `chunks of ${size}`).toEqual(events)
    }
  })

  it('gives no event before its blank line', () => {
    const parser = createSseParser()
    expect(parser.push(bytes('data: 1\n'))).toEqual([])
    expect(parser.push(bytes('\n'))).toEqual(['1'])
  })
})
