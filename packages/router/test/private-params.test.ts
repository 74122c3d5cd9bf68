/** `kv_transfer_params` of engines never reach a client; everything else does, byte for byte. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { answerWithoutParams, eventsWithoutParams } from '../src/private-params.ts'
import { handoff, sendJson, sse } from './support/fake-engine.ts'
import { post, prompt, setup } from './support/router-fixture.ts'

const events = (text: string): string => eventsWithoutParams(Buffer.from(text)).toString()

describe('answers', () => {
  it.each([
    ['{"id":1,"kv_transfer_params":{"a":[1]}}', '{"id":1}'],
    ['{"kv_transfer_params":null,"id":1}', '{"id":1}'],
    ['{ "id" : 1.0, "text": "\\"kv_transfer_params\\"" }', null],
    ['{"choices":[{"kv_transfer_params":1}]}', null],
    ['["kv_transfer_params"]', null],
    ['"kv_transfer_params" is not JSON', null],
  ])('%s', (text, expected) => expect(answerWithoutParams(text)).toBe(expected ?? text))
})

describe('events', () => {
  it.each([
    ['data: {"id":1,"kv_transfer_params":{"a":1}}\n\n', 'data: {"id":1}\n\n'],
    [
      ': ping\r\n\r\nid: 7\r\ndata: {"id":1,\r\ndata: "kv_transfer_params":{}}\r\n\r\ndata: [DONE]\r\n\r\n',
      ': ping\r\n\r\nid: 7\r\ndata: {"id":1}\r\n\r\ndata: [DONE]\r\n\r\n',
    ],
    ['data: {"kv_transfer_params":1}', 'data: {}'],
    ['data: "kv_transfer_params"\n\n', null],
    ['data: {"text":"\\"kv_transfer_params\\""}\n\n', null],
  ])('%j', (text, expected) => expect(events(text)).toBe(expected ?? text))

  it('changes nothing else', () => {
    const part = fc.constantFrom('data: ', '\n', '\n\n', '\r\n\r\n', '{"x":"ü"}', 'y', ':')
    const secret = 'data: {"kv_transfer_params":{}}\n\n'
    fc.assert(
      fc.property(fc.array(part), fc.array(part), (before, after) => {
        const [head, tail] = [`${before.join('')}\n\n`, `data: 1\n\n${after.join('')}`]
        expect(events(`${head}${secret}${tail}`)).toBe(`${head}data: {}\n\n${tail}`)
      }),
    )
  })
})

describe('through the router', () => {
  it('pull: D’s own params stay behind, in an answer, an error and a stream', async () => {
    for (const status of [200, 400]) {
      const { router } = await setup({
        decode: (_request, response) =>
          sendJson(response, status, { id: 1, kv_transfer_params: handoff }),
      })
      expect((await post(router.url, prompt)).text).toBe('{"id":1}')
    }
    const last = JSON.stringify({ id: 2, kv_transfer_params: handoff })
    // Cut inside the field's name: an event is seen whole.
    const cut = last.indexOf('transfer')
    const { router } = await setup({
      decode: sse([
        'data: 1\n\n',
        `data: ${last.slice(0, cut)}`,
        `${last.slice(cut)}\n\n`,
        'data: [DONE]\n\n',
      ]),
    })
    expect((await post(router.url, { ...prompt, stream: true })).text).toBe(
      'data: 1\n\ndata: {"id":2}\n\ndata: [DONE]\n\n',
    )
  })
})
