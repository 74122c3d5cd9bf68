/**
 * The router's part of a cluster: brings a prompt to a producer and to a consumer, in the order that the
 * connector's `dispatch` asks for, as an HTTP router would (handoffs pass through JSON). It knows nothing of
 * any connector's handoff.
 */
import type { ConnectorCapabilities, KvTransferParams } from '../../index.ts'
import type { Clock } from '../../clock.ts'
import type { Auditor } from './auditor.ts'
import type { ServedRequest } from './served-request.ts'
import type { ServingEngine } from './serving-engine.ts'

export interface Job {
  readonly id: string
  readonly prompt: number
  readonly promptTokenCount: number
  readonly outputTokenCount?: number
  /** Of the producer, which an HTTP router asks for one. Default 1. */
  readonly producerOutputTokenCount?: number
  /** Names of engines: whoever lives under them when their turn comes. */
  readonly producer: string
  readonly consumer: string
  /** The router's way from the producer's answer to the consumer. */
  readonly hopMs?: number
  /** What the producer is asked to load first: the last turn's handoff of a bidirectional connector. */
  readonly producerParams?: KvTransferParams
}

/** What became of a job; filled in as it goes. */
export interface Journey {
  readonly job: Job
  producer: ServedRequest | null
  producerEngine: ServingEngine | null
  consumer: ServedRequest | null
  consumerEngine: ServingEngine | null
  handoff: KvTransferParams | null
  /** `undone`: an engine was not there, or its request ended otherwise than by itself. */
  outcome: 'open' | 'done' | 'undone'
}

export class ClusterRouter {
  readonly journeys: Journey[] = []
  readonly #find: (name: string) => ServingEngine | undefined
  readonly #clock: Clock
  readonly #auditor: Auditor
  readonly #dispatch: ConnectorCapabilities['dispatch']
  #dispatchCount = 0
  #hopCount = 0

  constructor(options: {
    readonly find: (name: string) => ServingEngine | undefined
    readonly clock: Clock
    readonly auditor: Auditor
    readonly dispatch: ConnectorCapabilities['dispatch']
  }) {
    this.#find = options.find
    this.#clock = options.clock
    this.#auditor = options.auditor
    this.#dispatch = options.dispatch
  }

  /** Something is on its way between engines. */
  get isBusy(): boolean {
    return this.#hopCount > 0
  }

  serve(job: Job): Journey {
    const journey: Journey = {
      job,
      producer: null,
      producerEngine: null,
      consumer: null,
      consumerEngine: null,
      handoff: null,
      outcome: 'open',
    }
    this.journeys.push(journey)
    if (this.#dispatch === 'sequential') this.#serveInTurn(journey)
    else this.#serveAtOnce(journey)
    return journey
  }

  /** A second consumer's request with what the first one got, as a router that tries again sends it. */
  repeat(journey: Journey, consumer: string, id: string): Journey {
    const { handoff, producer, producerEngine } = journey
    const job = { ...journey.job, consumer, id }
    const again: Journey = { ...journey, job, producer, producerEngine, consumer: null, handoff }
    again.outcome = 'open'
    this.journeys.push(again)
    this.#consume(again, handoff)
    return again
  }

  #serveInTurn(journey: Journey): void {
    const params = journey.job.producerParams ?? {}
    this.#produce(journey, { ...params, ...producerFlags(params) }, (request) => {
      if (request.finishReason !== 'length-capped') {
        this.#close(journey, 'undone')
        return
      }
      const { returnedParams } = request
      journey.handoff = returnedParams === null ? null : overHttp(returnedParams)
      this.#hop(journey)
    })
  }

  #serveAtOnce(journey: Journey): void {
    const { id, producer } = journey.job
    this.#dispatchCount += 1
    const transferId = `xfer-${id}-${this.#dispatchCount}`
    const remote = this.#find(producer)?.host
    const handoff = remote && {
      do_remote_prefill: true,
      do_remote_decode: false,
      remote_engine_id: remote.engineId,
      remote_request_id: id,
      remote_host: remote.ranks[0]!.sideChannel.address.host,
      remote_port: remote.ranks[0]!.sideChannel.address.port,
      tp_size: remote.ranks.length,
      pp_size: 1,
      transfer_id: transferId,
    }
    journey.handoff = handoff ?? null
    this.#produce(journey, { ...producerFlags({}), transfer_id: transferId }, () => {})
    this.#hop(journey)
  }

  #hop(journey: Journey): void {
    this.#hopCount += 1
    this.#clock.after(journey.job.hopMs ?? 0.2, () => {
      this.#hopCount -= 1
      this.#consume(journey, journey.handoff)
    })
  }

  #produce(
    journey: Journey,
    params: KvTransferParams,
    onEnd: (request: ServedRequest) => void,
  ): void {
    const { id, prompt, promptTokenCount, producer, producerOutputTokenCount } = journey.job
    const engine = this.#living(producer)
    if (engine === null) {
      this.#close(journey, 'undone')
      return
    }
    journey.producerEngine = engine
    const outputTokenCount = producerOutputTokenCount ?? 1
    const init = { prompt, promptTokenCount, outputTokenCount, params, onEnd }
    journey.producer = engine.submit({ ...init, id: freshId(engine, id) })
  }

  #consume(journey: Journey, params: KvTransferParams | null): void {
    const { id, prompt, promptTokenCount, outputTokenCount = 2, consumer } = journey.job
    const engine = this.#living(consumer)
    if (engine === null) {
      this.#close(journey, 'undone')
      return
    }
    const onEnd = ({ finishReason }: ServedRequest): void =>
      this.#close(journey, finishReason === 'length-capped' ? 'done' : 'undone')
    journey.consumerEngine = engine
    const init = { prompt, promptTokenCount, outputTokenCount, params, onEnd }
    journey.consumer = engine.submit({ ...init, id: freshId(engine, id) })
  }

  #living(name: string): ServingEngine | null {
    const engine = this.#find(name)
    return engine === undefined || engine.isHalted ? null : engine
  }

  #close(journey: Journey, outcome: 'done' | 'undone'): void {
    journey.outcome = outcome
    this.#auditor.note(`router ${journey.job.id} is ${outcome}`)
  }
}

/** As clients choose ids: one may come again, though not within one life of an engine. */
function freshId({ name, requests }: ServingEngine, id: string): string {
  let fresh = `${name}/${id}`
  while (requests.has(fresh)) fresh += '+'
  return fresh
}

const producerFlags = (params: KvTransferParams): KvTransferParams =>
  // A bidirectional handoff says by itself what the producer is to do with it.
  'do_remote_decode' in params ? {} : { do_remote_decode: true, do_remote_prefill: false }

const overHttp = (params: KvTransferParams): KvTransferParams =>
  JSON.parse(JSON.stringify(params)) as KvTransferParams
