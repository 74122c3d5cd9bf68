/** What could not be judged here, and why. */
export interface GpuSkip {
  readonly skipped: string
}

/** One thing that must hold on a GPU: run by vitest over the fake driver, and by gpu-suite on a machine with GPUs. */
export interface GpuCheck {
  readonly name: string
  run(): Promise<void | GpuSkip | undefined>
}

/** What a run has: GPUs, and how much it may take. */
export interface GpuScope {
  readonly gpuCount: number
  /** Cases of each property. */
  readonly runCount: number
}
