/** What a producer checks of a registration before it takes it on, whatever its protocol. Pure. */
import { ConnectorError, type AnyConnectorError } from '../index.ts'
import { lifeKey } from '../protocol/index.ts'
import type { ConsumerPeer } from './consumer-peers.ts'
import type { Registration } from './messages.ts'
import type { WriteSource } from './write-part.ts'

/** One registration of one life of a consumer rank. */
export const lateKey = (
  { identity }: Pick<ConsumerPeer, 'identity'>,
  { rank, loadId }: Pick<Registration, 'rank' | 'loadId'>,
): string => lifeKey(identity, rank, loadId)

/** Whether the consumer asks for the KV of this very prompt. */
export const isSamePrompt = (
  { tokenCount, promptDigest }: Registration,
  { prompt }: Pick<WriteSource, 'prompt'>,
): boolean =>
  tokenCount === prompt.tokenCount &&
  promptDigest.every((byte, index) => byte === prompt.digest[index])

export const otherPrompt = (): AnyConnectorError => registrationInvalid('prompt', 'another one')

/** Why blocks that were named can't be written into, or null. */
export function registrationError(
  { firstToken, tokenCount, blockIds }: Registration,
  { facts, blockCount }: ConsumerPeer,
): AnyConnectorError | null {
  const { blockTokens } = facts
  const count = Math.ceil(tokenCount / blockTokens) - firstToken / blockTokens
  if (firstToken % blockTokens !== 0 || firstToken >= tokenCount) {
    return registrationInvalid('firstToken', `${firstToken} of ${tokenCount} tokens`)
  }
  if (blockIds.length !== count) {
    return registrationInvalid('blocks', `${blockIds.length} for ${count} to be written`)
  }
  const wrong = blockIds.find((id) => id >= blockCount)
  if (wrong !== undefined) return registrationInvalid('blocks', `block ${wrong} of ${blockCount}`)
  if (new Set(blockIds).size < blockIds.length) return registrationInvalid('blocks', 'one twice')
  return null
}

function registrationInvalid(field: string, value: string): AnyConnectorError {
  const message = `registration: ${field} is ${value}`
  return new ConnectorError('ERR_KV_HANDOFF_INVALID', message, { field, value })
}
