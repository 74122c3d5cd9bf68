/**
 * Which slots a step must digest besides writing its own. Pure. Every token depends on the bytes named
 * here, and they are a function of the request alone: how the prompt was chunked, batched, hit, loaded or
 * recomputed doesn't show in the text.
 *
 * - first token: every slot of the prompt, each read once, in the step that made it valid
 * - later tokens: the slot written last, and a rotating 1/64 of all earlier ones, in groups of a fixed
 *   size, so that the block size doesn't show either
 * - last token: every slot again
 */
import { engineLimits } from '../limits.ts'
import type { ScheduledChunk } from './scheduler.ts'
import type { SlotRange } from './slot-ranges.ts'

export interface ReadPlan {
  readonly chunk: ScheduledChunk
  /** Loaded tokens to check before this step writes: the recomputed last one too. */
  readonly loaded: SlotRange | null
  /** Read after this step's writes. */
  readonly written: readonly SlotRange[]
  readonly isSampled: boolean
  /** Whether what is read now belongs to the prompt's running sum. */
  readonly isPromptSum: boolean
}

export function planReads(chunk: ScheduledChunk): ReadPlan {
  const { request, end } = chunk
  const isSampled = end === request.tokenCount
  const load = request.unverifiedLoad
  const loaded = load === null ? null : { request, start: load.start, end: load.end }
  const isPromptSum = request.digestedCount < request.promptTokenCount && !hasFirstToken(chunk)
  const plan = { chunk, loaded, isSampled, isPromptSum }
  if (!isPromptSum) return { ...plan, written: isSampled ? laterReads(chunk) : [] }
  const readEnd = Math.min(end, request.promptTokenCount)
  const unread = { request, start: request.digestedCount, end: readEnd }
  if (loaded === null) return { ...plan, written: [unread] }
  // What was loaded counts as it came, also the last token, which this step writes once more.
  const around = [
    { ...unread, end: loaded.start },
    { ...unread, start: loaded.end },
  ]
  return { ...plan, written: around.filter((range) => range.end > range.start) }
}

/** Preempted after its first token: the prompt's sum was used and is not needed again. */
const hasFirstToken = ({ request }: ScheduledChunk): boolean => request.outputTokenCount > 0

function laterReads({ request, end }: ScheduledChunk): SlotRange[] {
  const outputIndex = request.outputTokenCount
  if (outputIndex === request.maxTokens - 1) return [{ request, start: 0, end }]
  const { rotatingDigestShare: share, rotatingDigestTokens: groupTokens } = engineLimits
  const ranges: SlotRange[] = []
  for (let start = (outputIndex % share) * groupTokens; start < end; start += share * groupTokens) {
    ranges.push({ request, start, end: Math.min(start + groupTokens, end) })
  }
  const isLastRead = ranges.at(-1)?.end === end
  return isLastRead ? ranges : [...ranges, { request, start: end - 1, end }]
}
