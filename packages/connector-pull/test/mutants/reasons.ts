/**
 * By which words of the suite each wrong connector is found out: the rule of the auditor that was broken, or what
 * the clause itself says.
 */
export const reasons: Readonly<Record<string, RegExp>> = {
  'free at abort': /^blocks came free under a transfer/,
  'trust deregistration': /^it was reported while a transfer may write/,
  'ignore epoch': /^S2: .* is reported loaded/,
  'accept forged token': /^a forged notification was believed/,
  'double report': /^hook: .* consumer request: received/,
  'a failed READ is reported as good': /^S2: .* is reported loaded/,
  'a failed load names no block': /^S2: .* a failed load names none of its blocks/,
  'a share that failed is reported as good': /^S2: .* is reported loaded/,
  'a lease is over with its first reader': /^S2: .* is reported loaded/,
  'the manifest changes': /^the manifest changed/,
  'any option is accepted': /^an unknown option: expected ERR_KV_CONFIG, got accepted/,
  'an aborted request’s report never comes': /^disturbed at moment \d+ of \d+: V2: /,
  'the producer is not told that it may free': /^the producer still holds its blocks/,
  'no lease expires': /^the blocks are still held/,
  'keep what reached nobody': /^the producer waits for nobody/,
  'the same metadata is told in two steps': /^hook: .* the same is told twice/,
  'a question is answered once only': /strictly deep-equal/,
  'a second question finds the same reports': /^hook: .* reported twice/,
  // It leaves the hook as it was thrown.
  'junk in params is thrown at': /^remote_port$/,
  'facts are not compared': / was loaded$/,
  'the layout is ignored': /^S2: .* is reported loaded/,
  'any prompt is the right one': /^S2: .* is reported loaded/,
  'closing does not wait': /^closed over a transfer in flight/,
  'other TP sizes are mapped all the same': / was loaded$/,
  'other block sizes are converted all the same': / was loaded$/,
  'a handoff serves one alone': /^again-\d+: load error/,
  'other layouts are converted all the same': / was loaded$/,
}
