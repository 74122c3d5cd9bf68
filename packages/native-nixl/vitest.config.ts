import { testProject } from '../../vitest.base.ts'

// Real time and real processes: one file at a time, or they would measure each other.
const project = testProject('native-nixl', { isolate: true })

export default {
  ...project,
  test: { ...project.test, globalSetup: ['test/global-setup.ts'], fileParallelism: false },
}
