/**
 * A small wheel with the pinned one's name and layout, so that the installer's whole way through pip can
 * be tested without the network and without 60 MB.
 */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { nixlWheels, type CudaMajor, type NixlWheel } from '../src/install/wheels.ts'

const hex = (index: number) => index.toString(16).padStart(8, '0')

/** As many and such names as the pinned wheel has. */
function neededNames(): string[] {
  const own = ['nixl_capi', 'nixl', 'nixl_build', 'nixl_common', 'serdes', 'stream']
  const ucx = ['ucp', 'ucs', 'uct', 'ucm']
  const network = ['grpc', 'grpc++', 'gpr', 'etcd-cpp-api-core', 'protobuf', 're2']
  const small = ['address_sorting', 'utf8_range_lib', 'utf8_validity']
  const many = Array.from({ length: 89 }, (_, index) => `${index < 11 ? 'upb' : 'absl'}_p${index}`)
  return [
    ...own.map((name) => `.nixl_cu12.mesonpy.libs/lib${name}.so`),
    '.nixl_cu12.mesonpy.libs/plugins/libplugin_UCX.so',
    ...[...ucx, ...network, ...small, ...many].map(
      (name, index) => `nixl_cu12.libs/lib${name}-${hex(index)}.so.1.0`,
    ),
    ...['uct_cma', 'uct_cuda', 'ucm_cuda'].map((name) => `nixl_cu12.libs/ucx/lib${name}.so.0.0.0`),
  ]
}

const unneededNames = [
  '.nixl_cu12.mesonpy.libs/plugins/libplugin_GDS.so',
  'nixl_cu12.libs/ucx/libuct_cma.la',
  'nixl_cu12/__init__.py',
]

const zipProgram = `
import json, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as archive:
    for name, text in json.loads(sys.stdin.read()):
        archive.writestr(name, text)
`

/** Writes the wheel into `directory`; returns the pin that matches it. */
export function writeSyntheticWheel(directory: string): Readonly<Record<CudaMajor, NixlWheel>> {
  const pinned = nixlWheels['12']
  const path = join(directory, pinned.fileName)
  const info = 'nixl_cu12-1.5.1.dist-info'
  const entries = [
    ...[...neededNames(), ...unneededNames].map((name) => [name, `content of ${name}`]),
    [`${info}/METADATA`, 'Metadata-Version: 2.1\nName: nixl-cu12\nVersion: 1.5.1\n'],
    [
      `${info}/WHEEL`,
      'Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-manylinux_2_28_x86_64\n',
    ],
    [`${info}/RECORD`, ''],
  ]
  execFileSync('python3', ['-c', zipProgram, path], { input: JSON.stringify(entries) })
  const sha256 = createHash('sha256').update(readFileSync(path)).digest('hex')
  return { ...nixlWheels, '12': { ...pinned, sha256 } }
}
