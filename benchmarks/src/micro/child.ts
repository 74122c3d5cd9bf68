/**
 * The child process of `kvferry-bench micro`: one agent, one command per line of stdin, one answer per
 * line of stdout (see native/bare_loop.cc, which speaks the same). Ends when stdin ends.
 */
import { ChildAgent } from './child-agent.ts'
import { answerCommands, type Words } from './command-lines.ts'

const agent = await ChildAgent.create(process.argv[2] ?? '')

async function execute(words: readonly string[]): Promise<Words> {
  const [command = '', ...args] = words
  const number = (index: number) => Number(args[index])
  const text = (index: number) => args[index] ?? ''
  switch (command) {
    case 'serve':
      agent.serve()
      return []
    case 'connect':
      await agent.connect(text(0), text(1), text(3), text(4))
      return []
    case 'run':
      return [await agent.run(number(0), number(1))]
    case 'verify':
      agent.verify(number(0))
      return []
    case 'post':
      return agent.postBursts(number(0), number(1))
    case 'idle':
      return [await agent.idle(number(0), text(1) === 'expecting')]
    case 'collect':
      return agent.collect(number(0))
    case 'transports':
      return agent.transports()
    default:
      throw new Error(`unknown command ${command}`)
  }
}

await answerCommands(agent.hello, execute)
await agent.close()
