/**
 * Our agent as one child process of `micro` drives it: the same commands as the bare loop, measured from
 * JavaScript, as an engine would see it. Times are ns of the system-wide monotonic clock.
 */
import type {
  BlockTableHandle,
  KvMemory,
  PeerHandle,
  TransferAgent,
  TransferCompletion,
  TransferPost,
} from '@kvferry/connector-api'
import {
  addressForDebug,
  createHostAllocator,
  createNixlAgent,
  transportsInUse,
} from '@kvferry/native-nixl'
import { fillPattern, fillUntouched, findWrongWord, scatteredIds } from './child-memory.ts'
import { micro } from './settings.ts'

const now = (): number => Number(process.hrtime.bigint())
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const unhex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'hex'))

/** Two tables over the same region: blocks of the throughput cases, and small ones for posting costs. */
interface Tables {
  readonly blocks: BlockTableHandle
  readonly small: BlockTableHandle
}

export class ChildAgent {
  readonly #agent: TransferAgent
  readonly #memory: KvMemory
  readonly #local: Tables
  readonly #hello: string
  #remote: Tables | null = null
  #peer: PeerHandle | null = null
  #openCount = 0
  #onAllDone: (failed: TransferCompletion | null) => void = () => {}
  #failed: TransferCompletion | null = null
  readonly #notifiedAt: number[] = []
  #onNotified: () => void = () => {}

  private constructor(agent: TransferAgent, memory: KvMemory, local: Tables, hello: string) {
    this.#agent = agent
    this.#memory = memory
    this.#local = local
    this.#hello = hello
    agent.setListener({
      onCompletions: (completions) => this.#onCompletions(completions),
      onNotifications: (notifications) => {
        const at = now()
        this.#notifiedAt.push(...notifications.map(() => at))
        this.#onNotified()
      },
      onBroken(error) {
        throw error
      },
    })
  }

  static async create(name: string): Promise<ChildAgent> {
    const memory = createHostAllocator().allocate({ sizeBytes: micro.regionSizeBytes })
    fillUntouched(memory)
    const agent = await createNixlAgent({ name })
    const region = await agent.registerRegion({
      memory,
      offsetBytes: 0,
      lengthBytes: micro.regionSizeBytes,
    })
    const table = (blockSizeBytes: number) =>
      agent.declareBlockTable([
        {
          region,
          offsetBytes: 0,
          blockSizeBytes,
          blockStrideBytes: blockSizeBytes,
          blockCount: micro.regionSizeBytes / blockSizeBytes,
        },
      ])
    const local = {
      blocks: table(micro.descriptorSizeBytes),
      small: table(micro.post.descriptorSizeBytes),
    }
    const metadata = hex(await agent.localMetadata())
    const tables = [local.blocks, local.small].map((each) => hex(agent.exportBlockTable(each)))
    const address = addressForDebug(memory).replace(/^0x/, '')
    return new ChildAgent(agent, memory, local, [metadata, address, ...tables].join(' '))
  }

  /** Metadata, address, and both tables: what `connect` of a peer takes. */
  get hello(): string {
    return this.#hello
  }

  serve(): void {
    fillPattern(this.#memory)
    this.#agent.expectNotifications(true)
  }

  async connect(name: string, metadata: string, blocks: string, small: string): Promise<void> {
    const peer = await this.#agent.addPeer({ metadata: unhex(metadata), expectedName: name })
    this.#peer = peer
    this.#remote = {
      blocks: this.#agent.importBlockTable(peer, unhex(blocks)),
      small: this.#agent.importBlockTable(peer, unhex(small)),
    }
    await this.#transfer([this.#read('blocks', 0, 1)])
  }

  /** Post to last completion in our callback. */
  async run(sizeBytes: number, depth: number): Promise<number> {
    const count = sizeBytes / micro.descriptorSizeBytes
    const posts = Array.from({ length: depth }, (_, i) => this.#read('blocks', i * count, count))
    const startedAt = now()
    return (await this.#transfer(posts)) - startedAt
  }

  verify(blockCount: number): void {
    const wrong = findWrongWord(this.#memory, blockCount)
    if (wrong !== null) throw new Error(`a byte is wrong in the word ${wrong}`)
  }

  /** Time of this thread inside each `post`, burst after burst. */
  async postBursts(burstCount: number, burstLength: number): Promise<number[]> {
    const times: number[] = []
    const one = [this.#read('small', 0, micro.post.descriptorCount)]
    for (let i = 0; i < burstCount; i++) {
      const done = this.#expect(burstLength)
      for (let j = 0; j < burstLength; j++) {
        const startedAt = now()
        this.#agent.post(one)
        times.push(now() - startedAt)
      }
      await done
    }
    return times
  }

  /** CPU time of the whole process in ns while nothing is asked of it. */
  async idle(durationMs: number, isExpecting: boolean): Promise<number> {
    this.#agent.expectNotifications(isExpecting)
    const before = process.cpuUsage()
    const startedAt = now()
    await new Promise((resolve) => setTimeout(resolve, durationMs))
    const { user, system } = process.cpuUsage(before)
    const elapsedNs = now() - startedAt
    return ((user + system) * 1_000 * (durationMs * 1e6)) / elapsedNs
  }

  /** When the first `count` notifications were in our callback. */
  async collect(count: number): Promise<number[]> {
    while (this.#notifiedAt.length < count) {
      await new Promise<void>((resolve) => (this.#onNotified = resolve))
    }
    return this.#notifiedAt.slice(0, count)
  }

  transports(): string[] {
    return transportsInUse(this.#agent)
  }

  close(): Promise<void> {
    return this.#agent.close({ deadlineMs: 2_000 })
  }

  #read(table: keyof Tables, first: number, count: number): TransferPost {
    if (this.#peer === null || this.#remote === null) throw new Error('not connected')
    const ids = scatteredIds(first, count)
    return {
      direction: 'read',
      peer: this.#peer,
      local: { table: this.#local[table], blockIds: ids },
      remote: { table: this.#remote[table], blockIds: ids },
    }
  }

  async #transfer(posts: readonly TransferPost[]): Promise<number> {
    const done = this.#expect(posts.length)
    this.#agent.post(posts)
    return done
  }

  /** Resolves with the moment of the last of `count` final completions. @throws the first failure. */
  async #expect(count: number): Promise<number> {
    this.#failed = null
    this.#openCount = count
    let endedAt = 0
    const failed = await new Promise<TransferCompletion | null>((resolve) => {
      this.#onAllDone = (first) => {
        endedAt = now()
        resolve(first)
      }
    })
    if (failed !== null && failed.status !== 'done') throw failed.error
    return endedAt
  }

  #onCompletions(completions: readonly TransferCompletion[]): void {
    for (const completion of completions) {
      if (completion.status !== 'done') this.#failed ??= completion
      if (completion.status !== 'overdue') this.#openCount -= 1
    }
    if (this.#openCount === 0) this.#onAllDone(this.#failed)
  }
}
