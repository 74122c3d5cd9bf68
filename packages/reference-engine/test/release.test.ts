/** A handoff that nobody will use, given back through the decode engine; and those that must not count. */
import { connect } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { startEngine } from '../src/index.ts'
import {
  complete,
  errorOf,
  inlineOptions,
  prefillOf,
  startPair,
  statsOf,
  type Pair,
} from './support/pair.ts'
import { createFabric } from './support/test-core.ts'

let pair: Pair
beforeEach(async () => {
  pair = await startPair()
})
afterEach(() => pair.close())

const release = (url: string, body: unknown) =>
  fetch(`${url}/kvferry/v1/release`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
const leased = async () => (await statsOf(pair.prefill)).blocks.leased

describe('a released handoff', () => {
  it('frees the prefill engine’s blocks long before its lease ends, and takes none', async () => {
    const params = await prefillOf(pair, 'x'.repeat(100))
    expect(await leased()).toBeGreaterThan(0)
    const answer = await release(pair.decode.url, { kv_transfer_params: params })
    expect(answer.status).toBe(202)
    await expect.poll(leased).toBe(0)
    const { blocks, requests } = await statsOf(pair.decode)
    expect(blocks).toMatchObject({ owned: 0, leased: 0, quarantined: 0 })
    expect(Object.values(requests).reduce((sum, count) => sum + count, 0)).toBe(0)
  })

  it('may be released again, and cannot be used any more', async () => {
    const prompt = 'y'.repeat(100)
    const params = await prefillOf(pair, prompt)
    for (let round = 0; round < 2; round++) {
      expect((await release(pair.decode.url, { kv_transfer_params: params })).status).toBe(202)
    }
    await expect.poll(leased).toBe(0)
    const late = await complete(pair.decode, { prompt, max_tokens: 4, kv_transfer_params: params })
    const alone = await complete(pair.prefill, { prompt, max_tokens: 4 })
    expect(late.text).toBe(alone.text)
  })

  it('counts only with its producer’s signature', async () => {
    const params = await prefillOf(pair, 'z'.repeat(100))
    const signature = String(params['remote_signature'])
    const forged = {
      ...params,
      remote_signature: signature.replace(/^./, (c) => (c === '0' ? '1' : '0')),
    }
    expect((await release(pair.decode.url, { kv_transfer_params: forged })).status).toBe(202)
    // A true one after it travels the same way: when it has arrived, the forged one has too.
    const other = await prefillOf(pair, 'w'.repeat(160))
    const both = await leased()
    expect((await release(pair.decode.url, { kv_transfer_params: other })).status).toBe(202)
    await expect.poll(leased).toBe(both - 10)
    expect(await leased()).toBe(7)
  })
})

it('a ticket (xavier) that nobody will use is released, and so are the prefill engine’s blocks', async () => {
  const giving = await startPair({ connector: 'xavier' })
  try {
    const held = async () => (await statsOf(giving.prefill)).blocks.leased
    const params = await prefillOf(giving, 'x'.repeat(100))
    expect(await held()).toBe(7)
    const answer = await release(giving.decode.url, { kv_transfer_params: params })
    expect(answer.status).toBe(202)
    await expect.poll(held).toBe(0)
    const { connectorCounters } = await statsOf(giving.prefill)
    expect(connectorCounters).toMatchObject({ ticketsFinished: 1, leasesExpired: 0 })
  } finally {
    await giving.close()
  }
})

describe('a transfer (push) that no decode engine took on', () => {
  it('is released under its id, and so are the prefill engine’s blocks, long before its lease ends', async () => {
    const pushing = await startPair({ connector: 'push' })
    try {
      const held = async () => (await statsOf(pushing.prefill)).blocks.leased
      const kv_transfer_params = { do_remote_decode: true, transfer_id: 'x-1' }
      await complete(pushing.prefill, {
        prompt: 'x'.repeat(100),
        max_tokens: 1,
        kv_transfer_params,
      })
      expect(await held()).toBe(7)
      const peer = (await (await fetch(`${pushing.prefill.url}/kvferry/v1/peer`)).json()) as {
        sideChannel: { host: string; port: number }
        dispatch: string
      }
      expect(peer.dispatch).toBe('concurrent')
      const told = {
        ...{ do_remote_prefill: true, transfer_id: 'x-1', tp_size: 1, remote_engine_id: 'p0' },
        ...{ remote_host: peer.sideChannel.host, remote_port: peer.sideChannel.port },
        remote_request_id: 'r',
      }
      const answer = await release(pushing.decode.url, { kv_transfer_params: told })
      expect(answer.status).toBe(202)
      await expect.poll(held).toBe(0)
    } finally {
      await pushing.close()
    }
  })
})

describe('what is no handoff', () => {
  it.each([
    ['no object', 5, 'body'],
    ['no params', {}, 'kv_transfer_params'],
    ['no length', { kv_transfer_params: {} }, 'remote_num_tokens'],
    ['no prompt', { kv_transfer_params: { remote_num_tokens: 1 } }, 'remote_prompt_digest'],
    [
      'a prompt of no form',
      { kv_transfer_params: { remote_num_tokens: 1, remote_prompt_digest: 'ab' } },
      '64 hexadecimal',
    ],
    ['a ticket alone', { kv_transfer_params: { remote_ticket: 'ab' } }, 'remote_num_tokens'],
    [
      'an empty ticket',
      { kv_transfer_params: { remote_num_tokens: 1, remote_ticket: '' } },
      'remote_ticket',
    ],
    ['a length beyond any', { kv_transfer_params: { remote_num_tokens: 1e9 } }, 'at most'],
    [
      'more beside it',
      {
        kv_transfer_params: { remote_num_tokens: 1, remote_prompt_digest: '00'.repeat(32) },
        prompt: 'x',
      },
      'prompt',
    ],
  ])('is refused: %s', async (_, body, part) => {
    const refused = await errorOf(await release(pair.decode.url, body))
    expect(refused).toMatchObject({ status: 400, code: 'ERR_KV_MESSAGE_INVALID' })
    expect(refused.message).toContain(part)
    expect(refused.message).not.toMatch(/Invalid input/)
  })

  it('an engine without connector has nothing to release', async () => {
    const alone = await startEngine(inlineOptions(createFabric()))
    try {
      expect((await release(alone.url, { kv_transfer_params: {} })).status).toBe(404)
    } finally {
      await alone.close()
    }
  })
})

describe('what is no request at all', () => {
  async function talk(text: string): Promise<string> {
    const { hostname, port } = new URL(pair.decode.url)
    const socket = connect({ host: hostname, port: Number(port) })
    socket.write(text)
    let answer = ''
    for await (const chunk of socket) answer += String(chunk)
    return answer
  }

  it.each([
    ['bytes that are no HTTP', 'nonsense\r\n\r\n', 400],
    [
      'a path that cannot be decoded',
      'GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
      400,
    ],
    ['headers without end', `GET / HTTP/1.1\r\nX: ${'x'.repeat(20_000)}\r\n\r\n`, 431],
  ])('%s: is answered in the usual form', async (_, text, status) => {
    const answer = await talk(text)
    expect(answer).toMatch(new RegExp(`^HTTP/1.1 ${status} `))
    expect(JSON.parse(answer.slice(answer.indexOf('\r\n\r\n')))).toMatchObject({
      error: { type: 'invalid_request_error', code: 'ERR_KV_MESSAGE_INVALID' },
    })
  })
})
