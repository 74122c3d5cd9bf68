/**
 * The life of one agent of the fabric, as its process would live it: running, stopped (SIGSTOP),
 * killed, broken or closed. Owns what reaches the agent's listener and when: completions and
 * notifications are delivered in batches, later, never from inside a method. Moves no bytes.
 */
import type { AnyConnectorError } from '../../errors.ts'
import { limits } from '../../limits.ts'
import type { ProcessIdentity } from '../../processes.ts'
import type { AgentListener, AgentNotification } from '../../transfer-agent.ts'
import type { TransferCompletion } from '../../transfer-agent.ts'
import type { FabricCore } from './fabric-core.ts'

/** What an agent of the fabric is made with. */
export interface AgentOptions {
  readonly hasSlabs?: boolean
  /** The path `ipc`, as if all agents lived on GPUs of one machine. */
  readonly hasIpc?: boolean
  readonly process?: ProcessIdentity
}

export type AgentLife = 'running' | 'stopped' | 'killed' | 'broken' | 'closed'

export class AgentProcess {
  readonly name: string
  readonly instance: number
  life: AgentLife = 'running'
  isStalled = false
  /** Transfers of its own without final status. */
  openTransferCount = 0
  /** Of these, those past their deadline. */
  drainingTransferCount = 0
  failingPostCount = 0
  /** Posts that were handed to the network. */
  postCount = 0
  /** Times its thread woke up. */
  turnCount = 0
  notificationsReceived = 0
  notificationsDropped = 0
  /** Slabs of its own that others have filled and that it has not emptied yet. */
  slabsLent = 0
  slabsMoved = 0
  transfersByIpc = 0
  readonly hasSlabs: boolean
  readonly hasIpc: boolean
  /** As in the machine's process table; null: nobody asks for it. */
  readonly identity: ProcessIdentity | null
  readonly #core: FabricCore
  readonly #completions: TransferCompletion[] = []
  #inbox: AgentNotification[] = []
  #held: (() => void)[] = []
  #listener: AgentListener | null = null
  #isExpecting = false
  #isCompletionFlushSet = false
  #isNotificationFlushSet = false
  #idleWaiters: (() => void)[] = []

  constructor(core: FabricCore, name: string, instance: number, options: AgentOptions = {}) {
    this.#core = core
    this.hasSlabs = options.hasSlabs ?? false
    this.hasIpc = options.hasIpc ?? false
    this.identity = options.process ?? null
    this.name = name
    this.instance = instance
  }

  /** Its thread looks at the network: only then do its peers make progress with it. */
  get isPolling(): boolean {
    return (
      this.life === 'running' &&
      (this.#isExpecting || this.openTransferCount > 0 || this.slabsLent > 0)
    )
  }

  get isGone(): boolean {
    return this.life === 'killed' || this.life === 'closed'
  }

  /** Completions that the listener hasn't seen yet. */
  get undeliveredCount(): number {
    return this.#completions.length
  }

  /** Runs `work` on the agent's thread after a random delay; held while stopped, dropped when killed. */
  later(maxDelayMs: number, work: () => void): void {
    this.#core.clock.after(this.#core.random.uniform() * maxDelayMs, () => {
      this.turnCount += 1
      if (this.life === 'stopped') this.#held.push(work)
      else if (this.life !== 'killed') work()
    })
  }

  /** One turn of the agent's thread; never comes when it is killed before. */
  turn(): Promise<void> {
    return new Promise((resolve) => this.later(this.#core.options.agentDelayMs, resolve))
  }

  setListener(listener: AgentListener): void {
    this.#listener = listener
    this.#flushCompletionsLater()
    this.#flushNotificationsLater()
  }

  expectNotifications(isExpected: boolean): void {
    this.#isExpecting = isExpected
    this.pollingChanged()
  }

  /** After anything that `isPolling` depends on. */
  pollingChanged(): void {
    if (this.isPolling) this.#flushNotificationsLater()
    this.#core.reconsider()
  }

  report(completion: TransferCompletion): void {
    this.#completions.push(completion)
    this.#flushCompletionsLater()
  }

  /** From the network. Kept until the agent polls; beyond the bound the oldest are lost. */
  receive(notification: AgentNotification): void {
    if (this.isGone) return
    this.notificationsReceived += 1
    this.#inbox.push(notification)
    if (this.#inbox.length > limits.notificationBacklogMax) {
      this.#inbox.shift()
      this.notificationsDropped += 1
    }
    if (this.isPolling) this.#flushNotificationsLater()
  }

  /** Resolves when no transfer is open and every completion was delivered. */
  untilIdle(): Promise<void> {
    return new Promise((resolve) => {
      this.#idleWaiters.push(resolve)
      this.wakeIdleWaiters()
    })
  }

  wakeIdleWaiters(): void {
    if (this.openTransferCount > 0) return
    if (this.#completions.length > 0 && this.#listener !== null) return
    const waiters = this.#idleWaiters
    this.#idleWaiters = []
    for (const wake of waiters) wake()
  }

  stop(): void {
    if (this.life === 'running') this.life = 'stopped'
  }

  resume(): void {
    if (this.life !== 'stopped') return
    this.life = 'running'
    const held = this.#held
    this.#held = []
    for (const work of held) this.later(this.#core.options.agentDelayMs, work)
    this.pollingChanged()
  }

  kill(): void {
    this.life = 'killed'
    this.#completions.length = 0
    this.#inbox = []
    this.#held = []
    this.#core.reconsider()
  }

  break(error: AnyConnectorError): void {
    if (this.life !== 'running') return
    this.life = 'broken'
    this.later(this.#core.options.agentDelayMs, () => this.#listener?.onBroken(error))
    this.#core.reconsider()
  }

  /** Delivers what is still to be told, then nothing more. */
  close(): void {
    this.#deliverCompletions()
    this.life = 'closed'
    this.#inbox = []
    this.#core.reconsider()
  }

  #flushCompletionsLater(): void {
    if (this.#isCompletionFlushSet || this.#completions.length === 0) return
    this.#isCompletionFlushSet = true
    this.later(this.#core.options.deliveryDelayMs, () => {
      this.#isCompletionFlushSet = false
      this.#deliverCompletions()
    })
  }

  /** Without a listener they wait for one; whoever drains doesn't. */
  #deliverCompletions(): void {
    const isHeard = this.#listener !== null && this.life === 'running'
    if (isHeard && this.#completions.length > 0) {
      this.#listener!.onCompletions(this.#completions.splice(0))
    }
    this.wakeIdleWaiters()
  }

  #flushNotificationsLater(): void {
    if (this.#isNotificationFlushSet || this.#inbox.length === 0) return
    this.#isNotificationFlushSet = true
    this.later(this.#core.options.deliveryDelayMs, () => {
      this.#isNotificationFlushSet = false
      if (this.#listener === null || !this.isPolling || this.#inbox.length === 0) return
      const batch = this.#inbox
      this.#inbox = []
      this.#listener.onNotifications(batch)
    })
  }
}
