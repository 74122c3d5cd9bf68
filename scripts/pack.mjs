#!/usr/bin/env node
// Packs what is published: one tarball a package, in the form that npm installs (built, exact versions
// instead of workspace links, the addon in its platform package). Used by a release, which publishes
// exactly these files, and by the test that installs them into an empty folder. Works on copies: neither
// the manifests nor the builds of the clone change.
//
//   node scripts/pack.mjs --out DIR [--only NAME,NAME] [--no-types]
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { run } from './process.mjs'
import { SetupError, root, runMain } from './setup.mjs'

const addonName = 'kvferry_nixl.node'
const addon = join(root, 'packages', 'native-nixl', 'build', 'Release', addonName)

/** Every publishable package: its name, version and folder. */
export function publishedPackages() {
  const folders = readdirSync(join(root, 'packages')).map((name) => join(root, 'packages', name))
  return [...folders, join(root, 'benchmarks')]
    .filter((folder) => existsSync(join(folder, 'package.json')))
    .map((folder) => {
      const manifest = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))
      return { folder, manifest, name: manifest.name }
    })
    .filter(({ manifest }) => !manifest.private)
}

/** The manifest as it is published: versions instead of links, no tools, no way into sources. */
export function publishedManifest(manifest, versions) {
  const published = { ...manifest, publishConfig: { access: 'public' } }
  delete published.devDependencies
  delete published.scripts
  for (const kind of ['dependencies', 'optionalDependencies', 'peerDependencies']) {
    if (published[kind] === undefined) continue
    published[kind] = Object.fromEntries(
      Object.entries(published[kind]).map(([name, version]) => {
        if (!version.startsWith('workspace:')) return [name, version]
        const known = versions.get(name)
        if (known === undefined) throw new SetupError(`${manifest.name} depends on unknown ${name}`)
        return [name, known]
      }),
    )
  }
  published.exports = Object.fromEntries(
    Object.entries(manifest.exports ?? {}).map(([entry, target]) => {
      if (typeof target === 'string') return [entry, target]
      const conditions = Object.entries(target).filter(([name]) => name !== 'kvferry-source')
      return [entry, Object.fromEntries(conditions)]
    }),
  )
  return published
}

/** The newest versions that a binary asks of the C and C++ libraries: which systems it runs on. */
function neededVersions(binary) {
  const text = readFileSync(binary, 'latin1')
  return ['GLIBC', 'GLIBCXX'].map((library) => {
    const versions = [...text.matchAll(new RegExp(`${library}_([0-9.]+)`, 'g'))].map((m) => m[1])
    versions.sort((a, b) => a.localeCompare(b, 'en', { numeric: true }))
    return `${library} ${versions.at(-1) ?? 'of any version'}`
  })
}

async function must(what, command, args, options) {
  const { code, output } = await run(command, args, { quiet: true, ...options })
  if (code !== 0) throw new SetupError(`${what} failed:\n${output}`)
  return output
}

const isPattern = (segment) => /[*?[{!]/.test(segment)

/** Lays one package out in `stage` as the tarball will hold it. */
async function stagePackage({ folder, manifest, name }, versions, stage, hasTypes) {
  mkdirSync(stage, { recursive: true })
  const published = publishedManifest(manifest, versions)
  writeFileSync(join(stage, 'package.json'), `${JSON.stringify(published, null, 2)}\n`)
  copyFileSync(join(root, 'LICENSE'), join(stage, 'LICENSE'))
  copyFileSync(join(folder, 'README.md'), join(stage, 'README.md'))
  for (const file of manifest.files ?? []) {
    const target = join(stage, file)
    if (file === 'dist') {
      const tsup = join(root, 'node_modules', 'tsup', 'dist', 'cli-default.js')
      await must(`building ${name}`, process.execPath, [tsup, '--silent', '--out-dir', target], {
        cwd: folder,
        env: { KVFERRY_BUILD_TYPES: hasTypes ? '1' : '0' },
      })
    } else if (file === addonName) {
      if (!existsSync(addon)) throw new SetupError('there is no addon; run "npm run setup" first')
      copyFileSync(addon, target)
      // Symbols of static functions are of use to nobody who has no sources; without strip it is just larger.
      await run('strip', ['--strip-unneeded', target], { quiet: true })
    } else {
      // Of a pattern the folder above it: npm applies the pattern when it packs.
      const segments = file.split('/')
      const first = segments.findIndex(isPattern)
      const plain = first < 0 ? segments : segments.slice(0, first)
      cpSync(join(folder, ...plain), join(stage, ...plain), { recursive: true })
    }
  }
}

/** Packs into `out`. Answers of each tarball its `name`, `file`, `integrity` and published `manifest`. */
export async function packAll({ out, only = null, hasTypes = true, log = () => {} }) {
  const packages = publishedPackages()
  const versions = new Map(packages.map(({ name, manifest }) => [name, manifest.version]))
  const unknown = only?.find((name) => !versions.has(name))
  if (unknown !== undefined) throw new SetupError(`there is no package ${unknown}`)
  mkdirSync(out, { recursive: true })
  // Within the clone, or source maps would name folders of this machine.
  mkdirSync(join(root, '.cache'), { recursive: true })
  const work = mkdtempSync(join(root, '.cache', 'pack-'))
  try {
    const packed = []
    for (const one of packages.filter(({ name }) => only === null || only.includes(name))) {
      const stage = join(work, one.name.replaceAll('/', '-'))
      await stagePackage(one, versions, stage, hasTypes)
      const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', out]
      const [report] = JSON.parse(
        await must(`packing ${one.name}`, 'npm', args, { cwd: stage, capture: true, quiet: false }),
      )
      if (existsSync(join(stage, addonName))) {
        log(`${addonName} needs ${neededVersions(join(stage, addonName)).join(', ')}`)
      }
      log(`${report.filename} (${Math.ceil(report.size / 1024)} KiB, ${report.entryCount} files)`)
      packed.push({
        name: one.name,
        file: join(out, report.filename),
        integrity: report.integrity,
        manifest: JSON.parse(readFileSync(join(stage, 'package.json'), 'utf8')),
      })
    }
    return packed
  } finally {
    rmSync(work, { recursive: true, force: true })
  }
}

async function main(args) {
  const option = (name) => (args.includes(name) ? args[args.indexOf(name) + 1] : undefined)
  const out = option('--out')
  if (out === undefined || args.includes('--help')) {
    process.stderr.write('Usage: pack.mjs --out DIR [--only NAME,NAME] [--no-types]\n')
    return args.includes('--help') ? 0 : 2
  }
  await packAll({
    out: resolve(out),
    only: option('--only')?.split(',') ?? null,
    hasTypes: !args.includes('--no-types'),
    log: (line) => process.stdout.write(`${line}\n`),
  })
  return 0
}

if (process.argv[1] !== undefined && import.meta.url === `file://${process.argv[1]}`) {
  await runMain(() => main(process.argv.slice(2)))
}
