#!/usr/bin/env node
// Keeps the packages one shape and the dependency arrows one-way (ARCHITECTURE.md): who may depend on whom
// is the table below; imports must be declared; versions are exact. Exit 1 with one line per finding.
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { builtinModules } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const api = '@kvferry/connector-api'
const leaves = [
  '@kvferry/connector-pull',
  '@kvferry/connector-push',
  '@kvferry/connector-xavier',
  '@kvferry/kv-history',
  '@kvferry/native-nixl',
  '@kvferry/runtime',
]

/** Binaries only; the package that loads them is the only one that knows them. */
const platforms = ['@kvferry/native-nixl-linux-x64']

/** Package → workspace packages it may depend on. Leaves never see one another; only the last ones assemble. */
const arrows = {
  [api]: [],
  ...Object.fromEntries(platforms.map((name) => [name, []])),
  ...Object.fromEntries(leaves.map((name) => [name, [api]])),
  '@kvferry/native-nixl': [api, ...platforms],
  '@kvferry/router': [api, '@kvferry/runtime'],
  '@kvferry/reference-engine': [api, ...leaves],
  '@kvferry/vllm-bridge': [api, ...leaves],
  '@kvferry/benchmarks': [api, ...leaves, '@kvferry/reference-engine', '@kvferry/router'],
  '@kvferry/e2e': [
    api,
    ...leaves,
    '@kvferry/reference-engine',
    '@kvferry/router',
    '@kvferry/benchmarks',
  ],
}
/** What tests alone may depend on beyond that: a connector's history, and the kernels under a history, are judged with the real one. */
const testArrows = {
  '@kvferry/connector-xavier': ['@kvferry/kv-history'],
  '@kvferry/native-nixl': ['@kvferry/kv-history'],
}
/** Tools of the root that tests and configurations may import without declaring them. */
const shared = new Set(['vitest', 'fast-check', 'tsup'])

const findings = []
const folders = [
  ...readdirSync(join(root, 'packages')).map((name) => join('packages', name)),
  'benchmarks',
  ...readdirSync(join(root, 'tests')).map((name) => join('tests', name)),
]

function sourceFiles(folder) {
  if (!existsSync(folder)) return []
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) return sourceFiles(path)
    return /\.(ts|mjs)$/.test(entry.name) ? [path] : []
  })
}

function importedPackages(path) {
  const text = readFileSync(path, 'utf8')
  const specifiers = [
    ...text.matchAll(/^\s*(?:import|export)\s[^'"]*?from\s+['"]([^'"]+)['"]/gm),
    ...text.matchAll(/^\s*import\s+['"]([^'"]+)['"]/gm),
    ...text.matchAll(/\bimport\(\s*['"]([^'"]+)['"]\s*\)/g),
  ].map((match) => match[1])
  return specifiers
    .filter(
      (name) =>
        !name.startsWith('.') && !name.startsWith('node:') && !builtinModules.includes(name),
    )
    .map((name) =>
      name
        .split('/')
        .slice(0, name.startsWith('@') ? 2 : 1)
        .join('/'),
    )
}

for (const folder of folders) {
  const path = join(root, folder, 'package.json')
  if (!existsSync(path)) continue
  const manifest = JSON.parse(readFileSync(path, 'utf8'))
  const report = (text) => findings.push(`${folder}: ${text}`)
  const allowed = arrows[manifest.name]
  if (!allowed) {
    report(`${manifest.name} is not in the table of scripts/check-packages.mjs`)
    continue
  }
  const dependencies = {
    ...manifest.dependencies,
    ...manifest.optionalDependencies,
    ...manifest.devDependencies,
  }
  for (const [name, version] of Object.entries(dependencies)) {
    if (name.startsWith('@kvferry/')) {
      const isForTests = name in (manifest.devDependencies ?? {})
      const mayBeUsed = [...allowed, ...(isForTests ? (testArrows[manifest.name] ?? []) : [])]
      if (!mayBeUsed.includes(name)) report(`must not depend on ${name}`)
      if (version !== 'workspace:*') report(`${name} must be workspace:*`)
    } else if (!/^\d+\.\d+\.\d+$/.test(version)) {
      report(`${name}@${version} is not an exact version`)
    }
  }
  if (!manifest.private) {
    const configurations = ['tsup.config.ts', 'tsconfig.json', 'vitest.config.ts']
    for (const file of [
      'README.md',
      ...(platforms.includes(manifest.name) ? [] : configurations),
    ]) {
      if (!existsSync(join(root, folder, file))) report(`lacks ${file}`)
    }
    if (manifest.type !== 'module' || manifest.sideEffects !== false)
      report('must be an ESM package without side effects')
    if (manifest.engines?.node !== '>=20.19') report('engines.node must be ">=20.19"')
    for (const [bin, target] of Object.entries(manifest.bin ?? {})) {
      if (!existsSync(join(root, folder, target))) report(`bin ${bin} points at a missing file`)
    }
  }
  const peers = Object.keys(manifest.peerDependencies ?? {})
  const inSource = new Set([manifest.name, ...Object.keys(manifest.dependencies ?? {}), ...peers])
  const inTests = new Set([...inSource, ...Object.keys(manifest.devDependencies ?? {}), ...shared])
  for (const [part, known] of [
    // A private package is tests all through.
    ['src', manifest.private ? inTests : inSource],
    ['test', inTests],
  ]) {
    for (const file of sourceFiles(join(root, folder, part))) {
      for (const name of importedPackages(file)) {
        if (!known.has(name))
          report(`${file.slice(root.length + 1)} imports ${name}, which is not declared`)
      }
    }
  }
}

const rootManifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8'))
for (const [name, version] of Object.entries(rootManifest.devDependencies)) {
  if (version !== 'workspace:*' && !/^\d+\.\d+\.\d+$/.test(version))
    findings.push(`root: ${name}@${version} is not exact`)
}

for (const finding of findings) process.stderr.write(`check-packages: ${finding}\n`)
process.exitCode = findings.length > 0 ? 1 : 0
