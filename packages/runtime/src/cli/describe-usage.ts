/**
 * Wrong usage of a command as the one line that every command of KVFerry prints, after its own name:
 * commander's message without its prefix, and without line breaks. Used by all commands of this workspace.
 */
export function describeUsage(error: Error): string {
  return error.message
    .replace(/^error: /, '')
    .replaceAll(/\s*\n\s*/g, ' ')
    .trim()
}
