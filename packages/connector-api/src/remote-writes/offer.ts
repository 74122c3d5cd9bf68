/** What a consumer is offered: KV of a prompt that another engine has computed, or is computing. */
import type { EngineId, RequestId } from '../index.ts'

/** The prompt of a transfer, as both engines know it. */
export interface PromptFacts {
  readonly tokenCount: number
  readonly digest: Uint8Array
}

/** Where a consumer finds the producer of its blocks. */
export interface ProducerPlace {
  readonly engineId: EngineId
  readonly host: string
  readonly port: number
  /** Its TP ranks. */
  readonly tpSize: number
}

/** What a request came with. */
export interface Offer {
  readonly requestId: RequestId
  readonly transferId: string
  readonly producer: ProducerPlace
  readonly prompt: PromptFacts
}
