/**
 * The bound on blocks out of service, into which a transfer without end may still write (architecture,
 * "When may a block be reused?"). Nothing can hurry it, so new loads are refused before the pool runs dry
 * unseen.
 */
import { ConnectorError, limits, type AnyConnectorError } from '../index.ts'

/** Why no further load may start, or null. */
export function quarantineError(
  quarantinedCount: number,
  poolBlockCount: number,
): AnyConnectorError | null {
  const max = Math.floor(poolBlockCount * limits.quarantinedBlockShareMax)
  if (quarantinedCount <= max) return null
  return new ConnectorError(
    'ERR_KV_QUARANTINE_FULL',
    `${quarantinedCount} blocks wait for transfers without end, at most ${max} may`,
    { blocks: quarantinedCount, max },
  )
}
