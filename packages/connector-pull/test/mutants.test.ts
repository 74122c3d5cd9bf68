import { describe, expect, test } from 'vitest'
import {
  connectorClauses,
  reasonByManifest,
  runConnectorClause,
} from '@kvferry/connector-api/conformance'
import { pull } from '../src/index.ts'
import { moreMutants } from './mutants/more-mutants.ts'
import { falseManifests, otherManifests } from './mutants/other-manifests.ts'
import { reasons } from './mutants/reasons.ts'
import { ruleMutants } from './mutants/rule-mutants.ts'

const mutants = [...ruleMutants, ...moreMutants, ...falseManifests]

describe('each wrong connector fails the clause that names its mistake', () => {
  for (const { name, clause, factory } of mutants) {
    test(`${clause}: ${name}`, async () => {
      const outcome = await runConnectorClause(clause, { factory })
      expect(outcome.kind).toBe('failed')
      // It noticed this very mistake; it didn't trip over another one, or over the mutant itself.
      const { message } = (outcome as { readonly error: Error }).error
      expect(message).toMatch(reasons[name] ?? 'a reason in mutants/reasons.ts')
    })
  }
})

describe('clauses that pull’s own manifest rules out pass where another manifest is kept', () => {
  for (const { name, clause, factory } of otherManifests) {
    test(`${clause}: ${name}`, async () => {
      expect((await runConnectorClause(clause, { factory: pull })).kind).toBe('skipped')
      expect(await runConnectorClause(clause, { factory })).toEqual({ kind: 'passed' })
    })
  }
})

test('the same clauses pass when nothing is broken', async () => {
  for (const clause of new Set([...ruleMutants, ...moreMutants].map((mutant) => mutant.clause))) {
    expect(await runConnectorClause(clause, { factory: pull }), clause).toEqual({ kind: 'passed' })
  }
})

test('clauses have ids of their group, in order, and no id twice', () => {
  const ids = connectorClauses.map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  const counts = new Map<string, number>()
  for (const id of ids) {
    const [group, number] = id.split('.') as [string, string]
    counts.set(group, (counts.get(group) ?? 0) + 1)
    expect(Number(number), id).toBe(counts.get(group))
  }
})

test('only the manifest skips a clause, and it says why', async () => {
  const clause = { id: 'X', sentence: '', needs: { isBidirectional: [true] } } as const
  const manifest = { ...pull.capabilities, isBidirectional: false }
  expect(reasonByManifest(clause, manifest)).toBe('isBidirectional is false')
  expect(reasonByManifest(clause, { ...manifest, isBidirectional: true })).toBe(null)
})
