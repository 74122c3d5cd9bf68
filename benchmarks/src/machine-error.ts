/** What was asked for can't be measured on this machine now: said in one line, as a check that failed. */
export class MachineError extends Error {
  override readonly name = 'MachineError'
}
