/** What was asked for can't be measured on this machine now, or an engine ended: said without a stack, as a check that failed. */
export class MachineError extends Error {
  override readonly name = 'MachineError'
}
