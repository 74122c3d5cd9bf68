/**
 * Engines with their KV in GPU memory, P on one GPU and D on another: each connector by each path says what an engine in
 * host memory says alone. Over the fake driver, which runs the kernels' own text, and the fake library; both
 * know one process only, so the engines are threads of this one. Real GPUs: `npm run test:gpu`.
 */
import { fileURLToPath } from 'node:url'
import { startEngine, type RunningEngine } from '@kvferry/reference-engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const native = new URL('../../../packages/native-nixl/', import.meta.url)
const fake = (name: string) => fileURLToPath(new URL(`build/fake/${name}`, native))
const settings = { blockSize: 16, maxModelLen: 256, numBlocks: 64, timeScale: 0 } as const
const shared = { ...settings, logLevel: 'warn' } as const
const maxTokens = 6

interface Answer {
  readonly text: string
  readonly params: Record<string, unknown> | null
}

async function complete(
  engine: RunningEngine,
  prompt: string,
  tokens: number,
  params?: object | null,
): Promise<Answer> {
  const response = await fetch(`${engine.url}/v1/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ prompt, max_tokens: tokens, kv_transfer_params: params ?? undefined }),
  })
  const body = (await response.json()) as {
    choices: { text: string }[]
    kv_transfer_params: Record<string, unknown> | null
  }
  expect(response.status, JSON.stringify(body)).toBe(200)
  return { text: body.choices[0]!.text, params: body.kv_transfer_params }
}

interface Stats {
  readonly connectorCounters: Readonly<Record<string, number>>
  readonly memoryBytes: { readonly deviceHistory: number; readonly hostHistory: number }
  readonly verification: { readonly blocksLoaded: number; readonly mismatchedBlocks: number }
  readonly agentCounters: Readonly<Record<'slabsMoved' | 'transfersByIpc' | 'bytesMoved', number>>
}
const statsOf = async (engine: RunningEngine) =>
  (await (await fetch(`${engine.url}/kvferry/v1/stats`)).json()) as Stats

const promptOf = (salt: number, length = 90) =>
  Array.from({ length }, (_, at) => String.fromCharCode(97 + ((at * 7 + salt) % 26))).join('')

let oracle: RunningEngine

beforeAll(async () => {
  const { build } = (await import(new URL('native/build.mjs', native).href)) as {
    build(options: { fake: boolean }): Promise<unknown>
  }
  await build({ fake: true })
  process.env['KVFERRY_NIXL_LIBRARY'] = fake('libfake_nixl_capi.so')
  process.env['KVFERRY_CUDA_LIBRARY'] = fake('libfake_cuda.so')
  oracle = await startEngine(shared)
})
afterAll(async () => {
  await oracle?.close()
})

async function withPair(
  connector: 'pull' | 'xavier',
  path: 'descriptors' | 'slabs' | 'ipc',
  run: (prefill: RunningEngine, decode: RunningEngine) => Promise<void>,
  options: object = {},
): Promise<void> {
  const both = { ...shared, connector, path }
  const prefill = await startEngine({ ...both, ...options, role: 'prefill', device: 'cuda:0' })
  const decode = await startEngine({ ...both, role: 'decode', device: 'cuda:1' })
  try {
    await run(prefill, decode)
  } finally {
    await decode.close()
    await prefill.close()
  }
}

async function handOver(prefill: RunningEngine, decode: RunningEngine, prompt: string) {
  const asked = { do_remote_decode: true, do_remote_prefill: false }
  const { params } = await complete(prefill, prompt, 1, asked)
  return complete(decode, prompt, maxTokens, params)
}

/** One of 6 blocks that the history's writer got done with: its deadline is 10 ms, however busy the machine is. */
async function keptPrompt(
  prefill: RunningEngine,
  decode: RunningEngine,
  counted: (name: string) => Promise<number>,
): Promise<string> {
  for (let salt = 1; salt <= 8; salt += 1) {
    const prompt = promptOf(salt)
    const before = await counted('historySavedBlocks')
    await handOver(prefill, decode, prompt)
    await expect.poll(() => counted('ticketsFinished'), { timeout: 20_000 }).toBe(salt)
    if ((await counted('historySavedBlocks')) - before === 6) return prompt
  }
  throw new Error('of eight prompts none was kept whole')
}

describe('engines with KV in GPU memory', () => {
  for (const [connector, path] of [
    ['pull', 'descriptors'],
    ['pull', 'slabs'],
    ['xavier', 'slabs'],
    ['pull', 'ipc'],
    ['xavier', 'ipc'],
  ] as const) {
    it(`say over ${connector} by ${path} what an engine in host memory says`, async () => {
      await withPair(connector, path, async (prefill, decode) => {
        for (const length of [1, 16, 90, 200]) {
          const prompt = promptOf(length, length)
          const { text } = await handOver(prefill, decode, prompt)
          expect(text).toBe((await complete(oracle, prompt, maxTokens)).text)
        }
        const { verification, agentCounters } = await statsOf(decode)
        expect(verification).toMatchObject({ mismatchedBlocks: 0 })
        expect(verification.blocksLoaded).toBeGreaterThan(15)
        // Whoever posts counts them: P in a handoff by ticket.
        const { agentCounters: others } = await statsOf(prefill)
        expect(others.bytesMoved + agentCounters.bytesMoved).toBeGreaterThan(0)
        expect(others.transfersByIpc + agentCounters.transfersByIpc > 0).toBe(path === 'ipc')
        expect(agentCounters.slabsMoved > 0).toBe(path === 'slabs')
      })
    })
  }

  it('and path ipc with its KV in host memory don’t start: it says where the KV has to lie', async () => {
    await expect(startEngine({ ...shared, connector: 'pull', path: 'ipc' })).rejects.toMatchObject({
      code: 'ERR_KV_CONFIG',
      message: expect.stringContaining('device cuda:N'),
    })
  })

  it('bring a prompt back from both tiers of their history, in GPU and in page-locked memory', async () => {
    const [blockBytes, deviceBlocks] = [settings.blockSize * 1_024, 3]
    const options = {
      prefixCaching: 'off',
      options: { gpuCacheBytes: deviceBlocks * blockBytes },
    }
    await withPair(
      'xavier',
      'slabs',
      async (prefill, decode) => {
        const { memoryBytes } = await statsOf(prefill)
        expect(memoryBytes).toMatchObject({
          deviceHistory: deviceBlocks * blockBytes,
          hostHistory: settings.numBlocks * blockBytes,
        })
        const counted = async (name: string) =>
          (await statsOf(prefill)).connectorCounters[name] ?? 0
        const prompt = await keptPrompt(prefill, decode, counted)
        const { text } = await handOver(prefill, decode, prompt)
        expect(text).toBe((await complete(oracle, prompt, maxTokens)).text)
        expect(await counted('historyHitBlocks')).toBe(6)
        expect(await counted('historyDeviceHitBlocks')).toBeGreaterThan(0)
        expect(await counted('historyHostHitBlocks')).toBeGreaterThan(0)
        for (const engine of [prefill, decode]) {
          expect((await statsOf(engine)).verification).toMatchObject({ mismatchedBlocks: 0 })
        }
      },
      options,
    )
  })

  it('that no GPU of this machine can hold don’t start', async () => {
    await expect(startEngine({ ...shared, device: 'cuda:7' })).rejects.toThrow(/GPU 7 of 2/)
  })
})
