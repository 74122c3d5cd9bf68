/**
 * Whether a peer's GPU memory is reached by software emulation, as a pure machine: the library says nothing of it, but
 * moves 0.1 to 2 GB/s instead of more than 50, so the rates of transfers that are due anyway tell. One machine for each
 * peer and direction: of memory that lies on the initiator's own GPU, READs may be emulated where WRITEs aren't. Fed by
 * path-chooser.ts, which measures the same transfers for `path: auto`; emulation-report.ts says what was found.
 */
import { protocolLimits } from './limits.ts'

export interface EmulationProbe {
  /** `direct` and `emulated` are final. */
  readonly verdict: 'unknown' | 'direct' | 'emulated'
  /** Transfers that no link with its driver would have taken so long for. */
  readonly slowCount: number
  /** GB/s (10^9 bytes) of the fastest of them. */
  readonly gigabytesPerSecond: number
}

export const unknownEmulation: EmulationProbe = {
  verdict: 'unknown',
  slowCount: 0,
  gigabytesPerSecond: 0,
}

/** One transfer by descriptors, with all that was under way at any time from its post to its end, itself included. */
export interface RateSample {
  readonly bytes: number
  readonly descriptorCount: number
  readonly us: number
}

/**
 * A peer is emulated when some transfers in a row have stayed below the threshold, each after what its descriptors cost
 * at most; one that reaches it as it is was not emulated. In between, and for small ones, nothing is known.
 */
export function judgeRate(probe: EmulationProbe, sample: RateSample): EmulationProbe {
  const { bytes, descriptorCount, us } = sample
  const limits = protocolLimits
  if (probe.verdict !== 'unknown' || bytes < limits.emulationSampleSizeBytesMin) return probe
  if (rateOf(bytes, us) >= limits.emulatedGigabytesPerSecondMax) {
    return { ...probe, verdict: 'direct' }
  }
  const movingUs = us - descriptorCount * limits.descriptorCostUsMax
  const isSlow = movingUs > 0 && rateOf(bytes, movingUs) < limits.emulatedGigabytesPerSecondMax
  if (!isSlow) return probe
  const slowCount = probe.slowCount + 1
  return {
    verdict: slowCount >= limits.pathTrialCount ? 'emulated' : 'unknown',
    slowCount,
    gigabytesPerSecond: Math.max(probe.gigabytesPerSecond, rateOf(bytes, us)),
  }
}

const rateOf = (bytes: number, us: number): number => bytes / us / 1_000
