/**
 * `--connectors pull,pull:posting=inline,push:progressive=true`: a list of connectors, each with options
 * of its own. Pure. A connector may also be a package or a URL, so a colon begins an option only where a
 * key and `=` follow it.
 */
import type { ConnectorChoice } from '../compare/configuration.ts'
import { UsageError } from '../usage-error.ts'
import { parseValue } from './flag-values.ts'

const optionStart = /:(?=[A-Za-z][A-Za-z0-9.]*=)/

function parseEntry(entry: string, whole: string): ConnectorChoice {
  const [connector = '', ...pairs] = entry.trim().split(optionStart)
  if (connector === '') {
    const what = whole.includes(',') ? 'an entry is empty' : 'name at least one'
    throw new UsageError(`--connectors "${whole}": ${what}; use names separated by commas`)
  }
  const options: Record<string, unknown> = {}
  for (const pair of pairs) {
    const at = pair.indexOf('=')
    const key = pair.slice(0, at)
    if (key in options) throw new UsageError(`--connectors ${entry}: ${key} is given twice`)
    options[key] = parseValue(pair.slice(at + 1))
  }
  return { connector, options }
}

/** @throws UsageError. */
export function parseConnectorList(text: string): ConnectorChoice[] {
  const choices = text.split(',').map((entry) => parseEntry(entry, text))
  const own = choices.find(({ connector }) => /^[a-z]+:/.test(connector) && !isUrl(connector))
  if (own) {
    const remedy = 'write options as NAME:key=value, for example pull:posting=inline'
    throw new UsageError(`--connectors ${own.connector}: ${remedy}`)
  }
  return choices
}

const isUrl = (name: string): boolean => /^(file|data|https?|node):/.test(name)
