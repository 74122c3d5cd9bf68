/**
 * The pinned NIXL wheels and which of their files KVFerry needs. Called by the installer, by the
 * library lookup and by `info`. A new NIXL version is a new pin here, tested, never "latest": struct
 * layouts changed inside 1.x.
 */
export const nixlVersion = '1.5.1'
/** The UCX inside both wheels, as it names itself. */
export const ucxVersion = '1.23.0'

export const cudaMajors = ['12', '13'] as const
export type CudaMajor = (typeof cudaMajors)[number]

export interface NixlWheel {
  readonly cuda: CudaMajor
  /** Name in the Python package index. */
  readonly packageName: string
  readonly fileName: string
  readonly sha256: string
}

const platformTag = 'manylinux_2_28_x86_64'

export const nixlWheels: Readonly<Record<CudaMajor, NixlWheel>> = {
  '12': {
    cuda: '12',
    packageName: 'nixl-cu12',
    fileName: `nixl_cu12-${nixlVersion}-cp311-cp311-${platformTag}.whl`,
    sha256: '341d0dfa499f941c054614252f1d8047d1380e33f29c87707372ff5ec7d3779a',
  },
  '13': {
    cuda: '13',
    packageName: 'nixl-cu13',
    fileName: `nixl_cu13-${nixlVersion}-cp311-cp311-${platformTag}.whl`,
    sha256: '6279834382eeabab60bfc2fe62c2363cda3bf520278bbd4a007932cc76073de5',
  },
}

/**
 * Tags of the wheel, given to pip so that a host with any Python can fetch it. Nothing of the wheel's
 * Python part is used; its native libraries don't depend on the interpreter.
 */
export const pipTagArguments: readonly string[] = [
  '--only-binary=:all:',
  '--implementation=cp',
  '--python-version=3.11',
  '--abi=cp311',
  `--platform=${platformTag}`,
]

/** The oldest glibc the wheel's platform tag promises to run with. */
export const glibcVersionMin = { major: 2, minor: 28 } as const

/**
 * What UCX needs of the wheel's ~450 MB: the dynamic closure of the C API and the UCX plugin, and the
 * UCX modules that are opened by name (CMA; CUDA, which stays unused without a driver). The directory
 * names stay, since the libraries find each other relative to their own place.
 */
const neededFiles: readonly RegExp[] = [
  /^\.nixl_cu\d+\.mesonpy\.libs\/lib(nixl_capi|nixl|nixl_build|nixl_common|serdes|stream)\.so$/,
  /^\.nixl_cu\d+\.mesonpy\.libs\/plugins\/libplugin_UCX\.so$/,
  /^nixl_cu\d+\.libs\/libuc[mpst]-[0-9a-f]+\.so[.\d]*$/,
  /^nixl_cu\d+\.libs\/lib(grpc|grpc\+\+|gpr|etcd-cpp-api-core|protobuf|re2)-[0-9a-f]+\.so[.\d]*$/,
  /^nixl_cu\d+\.libs\/lib(address_sorting|utf8_range_lib|utf8_validity)-[0-9a-f]+\.so[.\d]*$/,
  /^nixl_cu\d+\.libs\/lib(upb|absl)_[a-z0-9_]+-[0-9a-f]+\.so[.\d]*$/,
  /^nixl_cu\d+\.libs\/ucx\/lib(uct_cma|uct_cuda|ucm_cuda)\.so[.\d]*$/,
]

/** Files that the patterns select from each pinned wheel; another number means the wheel changed. */
export const neededFileCount = 112

/** Largest unpacked size accepted, so that a hostile archive can't fill the disk. */
export const unpackedSizeBytesMax = 128 * 1_048_576

export const neededFilePatterns: readonly string[] = neededFiles.map((pattern) => pattern.source)

/** Place of the C API within an installation, relative to its directory. */
export function libraryPathWithin(cuda: CudaMajor): string {
  return `.nixl_cu${cuda}.mesonpy.libs/libnixl_capi.so`
}
