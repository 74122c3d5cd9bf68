import { createMemoryHarness, runAgentConformance } from '@kvferry/connector-api/conformance'

for (const seed of [1, 2]) {
  runAgentConformance(`memory fabric, seed ${seed}`, createMemoryHarness({ seed }))
}

runAgentConformance('memory fabric by slabs', createMemoryHarness({ seed: 3, path: 'slabs' }))
runAgentConformance('memory fabric by ipc', createMemoryHarness({ seed: 4, path: 'ipc' }))
