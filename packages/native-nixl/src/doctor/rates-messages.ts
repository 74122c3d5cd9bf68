/** What the doctor and the two processes of a measurement say to each other. The doctor passes on, and decides when it is over. */
import type { AgentPath } from '@kvferry/connector-api'
import type { RateResult } from './rates-plan.ts'
import type { RateAnswer, RateQuestion, RateTargetFacts } from './rates-target.ts'

export type RateSideName = 'target' | 'initiator'

export type RateMessage =
  /** Of the target, to be measured with. */
  | { readonly kind: 'facts'; readonly facts: RateTargetFacts }
  /** To the initiator; so many points have been measured by one before it. */
  | { readonly kind: 'order'; readonly facts: RateTargetFacts; readonly doneCount: number }
  /** From the initiator to the target, and back. */
  | { readonly kind: 'ask'; readonly question: RateQuestion }
  | { readonly kind: 'answer'; readonly answer: RateAnswer }
  /** Of the initiator. `isStuck`: its transfer has no end, so its process must have one. */
  | { readonly kind: 'paths'; readonly paths: readonly AgentPath[] }
  | { readonly kind: 'point'; readonly result: RateResult; readonly isStuck: boolean }
  | { readonly kind: 'end' }
  /** Of either. */
  | { readonly kind: 'failed'; readonly reason: string }
