/**
 * What is wrong with a value, in words for whoever wrote it. For zod's `safeParse(input, { error })`: messages
 * that a schema states itself win over these, and zod's own wording ("Invalid input: expected …") is never
 * shown. Used by everything in this workspace that validates configuration or request bodies.
 */
import type { z } from 'zod'

const things: Readonly<Record<string, string>> = {
  string: 'a string',
  number: 'a number',
  int: 'a whole number',
  boolean: 'true or false',
  array: 'a list',
  object: 'an object',
  record: 'an object',
}

const countable: Readonly<Record<string, string>> = {
  string: 'characters',
  array: 'entries',
  set: 'entries',
}

function bound(issue: z.core.$ZodRawIssue, value: unknown, isLeast: boolean): string {
  const word = isLeast ? 'at least' : 'at most'
  const unit = countable[String(issue['origin'])]
  return unit === undefined ? `must be ${word} ${value}` : `must have ${word} ${value} ${unit}`
}

export function plainWords(issue: z.core.$ZodRawIssue): string {
  switch (issue.code) {
    case 'invalid_type': {
      const thing = things[String(issue.expected)] ?? String(issue.expected)
      return issue.input === undefined ? `is missing; it must be ${thing}` : `must be ${thing}`
    }
    case 'too_small':
      return bound(issue, issue.minimum, true)
    case 'too_big':
      return bound(issue, issue.maximum, false)
    case 'invalid_value':
      return `must be ${(issue.values as readonly unknown[]).map(String).join(' or ')}`
    case 'unrecognized_keys':
      return `has keys that are unknown: ${(issue.keys as readonly string[]).join(', ')}`
    case 'invalid_union':
      return issue.input === undefined ? 'is missing' : 'has none of the forms that are accepted'
    case 'invalid_format':
    case 'not_multiple_of':
    case 'invalid_key':
    case 'invalid_element':
    case 'custom':
      return 'has the wrong form'
    default:
      return 'is wrong'
  }
}
