/**
 * One side of a measurement between GPUs: an agent with all paths that engines have, over a pool. Posts as a connector does,
 * through the same chooser of paths, and says what that cost.
 */
import {
  ipcFor,
  limits,
  slabsFor,
  type AgentPath,
  type BlockTableHandle,
  type PeerHandle,
  type TransferAgent,
  type TransferCompletion,
  type TransferPost,
} from '@kvferry/connector-api'
import { PathChooser } from '@kvferry/connector-api/protocol'
import { createNixlAgent, transportsInUse } from '@kvferry/native-nixl'
import { scatteredIds } from './blocks.ts'
import type { ChildPool } from './child-pool.ts'
import type { Hello, Round, RoundOrder, TableName } from './messages.ts'

const nowUs = (): number => Number(process.hrtime.bigint()) / 1_000
const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString('hex')
const unhex = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, 'hex'))

interface Open {
  left: number
  readonly ended: TransferCompletion[]
  readonly chooser: PathChooser
  threadUs: number
  onAll: (atUs: number) => void
}

export class ChildAgent {
  readonly #agent: TransferAgent
  readonly #device: number | null
  readonly #tables = new Map<TableName, BlockTableHandle>()
  readonly #remote = new Map<TableName, BlockTableHandle>()
  readonly #choosers = new Map<string, PathChooser>()
  #peer: PeerHandle | null = null
  #open: Open | null = null

  private constructor(agent: TransferAgent, device: number | null) {
    this.#agent = agent
    this.#device = device
    agent.setListener({
      onCompletions: (batch) => this.#onCompletions(batch),
      onNotifications() {},
      onBroken(error) {
        throw error
      },
    })
  }

  static async open(
    options: {
      readonly name: string
      readonly device: number | null
      readonly tables: readonly TableName[]
    },
    pool: ChildPool,
  ): Promise<ChildAgent> {
    const { name, device, tables } = options
    const memory = device === null ? 'host' : 'cuda'
    const slabs = slabsFor(device === null ? 'slabs' : 'auto', [{ blockSizeBytes: 0 }], memory)
    const agent = await createNixlAgent({ name, device, slabs, ipc: ipcFor('auto', memory) })
    const lengthBytes = pool.memory.sizeBytes
    const region = await agent.registerRegion({ memory: pool.memory, offsetBytes: 0, lengthBytes })
    const child = new ChildAgent(agent, device)
    for (const table of tables) {
      child.#tables.set(table, agent.declareBlockTable(pool.regions(region, table)))
    }
    return child
  }

  async hello(): Promise<Hello> {
    const { name } = this.#agent
    const tables = [...this.#tables].map(
      ([table, handle]) => [table, hex(this.#agent.exportBlockTable(handle))] as const,
    )
    return { name, metadata: hex(await this.#agent.localMetadata()), tables }
  }

  serve(): void {
    this.#agent.expectNotifications(true)
  }

  /** Answers the paths to the peer. */
  async connect({ name, metadata, tables }: Hello): Promise<readonly AgentPath[]> {
    const peer = await this.#agent.addPeer({ metadata: unhex(metadata), expectedName: name })
    this.#peer = peer
    for (const [table, exported] of tables) {
      this.#remote.set(table, this.#agent.importBlockTable(peer, unhex(exported)))
    }
    return this.#agent.pathsTo(peer)
  }

  async round(order: RoundOrder): Promise<Round> {
    const posts = this.#postsOf(order)
    const chooser = this.#chooserOf(order.path)
    const cpu = process.cpuUsage()
    const startedAt = nowUs()
    const routed = posts.map((post) => chooser.route(post))
    const open: Open = { left: posts.length, ended: [], chooser, threadUs: 0, onAll: () => {} }
    this.#open = open
    const all = new Promise<number>((resolve) => (open.onAll = resolve))
    const transfers = this.#agent.post(routed.map(({ post }) => post))
    routed.forEach((each, at) => chooser.posted(transfers[at]!, each))
    open.threadUs = nowUs() - startedAt
    const wallUs = (await all) - startedAt
    const { user, system } = process.cpuUsage(cpu)
    const failed = open.ended.find(({ status }) => status !== 'done')
    if (failed !== undefined && failed.status !== 'done') throw failed.error
    const [only] = open.ended.length === 1 ? open.ended : []
    const agentUs = only?.status === 'done' ? only.times.prepareUs + only.times.wireUs : wallUs
    const path = routed[0]!.post.path ?? 'descriptors'
    return { wallUs, agentUs, threadUs: open.threadUs, cpuUs: user + system, path }
  }

  transports(): string[] {
    return transportsInUse(this.#agent)
  }

  close(): Promise<void> {
    return this.#agent.close({ deadlineMs: 2_000 })
  }

  #onCompletions(batch: readonly TransferCompletion[]): void {
    const startedAt = nowUs()
    const open = this.#open
    if (open === null) return
    for (const completion of batch) {
      if (completion.status === 'overdue') continue
      open.chooser.ended(completion)
      open.ended.push(completion)
      open.left -= 1
    }
    const endedAt = nowUs()
    open.threadUs += endedAt - startedAt
    if (open.left === 0) open.onAll(endedAt)
  }

  #chooserOf(path: RoundOrder['path']): PathChooser {
    const known = this.#choosers.get(path)
    if (known !== undefined) return known
    const isOnGpu = this.#device !== null
    const chooser = new PathChooser({ agent: this.#agent, path, isOnGpu, onSlabs() {} })
    this.#choosers.set(path, chooser)
    return chooser
  }

  /** More blocks than a post may have go as several. */
  #postsOf({ direction, table, count }: RoundOrder): TransferPost[] {
    const local = { table: this.#tables.get(table)!, ids: scatteredIds(count, 'local') }
    const remote = { table: this.#remote.get(table)!, ids: scatteredIds(count, 'remote') }
    const posts: TransferPost[] = []
    for (let at = 0; at < count; at += limits.blocksPerPostMax) {
      const part = ({ table: handle, ids }: typeof local) => ({
        table: handle,
        blockIds: ids.subarray(at, at + limits.blocksPerPostMax),
      })
      posts.push({ direction, peer: this.#peer!, local: part(local), remote: part(remote) })
    }
    return posts
  }
}
