/** The child process of `kvferry-bench gpus`: one agent over one pool, one command per line of stdin. Arguments: name, GPU or `host`, bytes of the pool, tables. */
import { answerCommands, type Words } from '../micro/command-lines.ts'
import { ChildAgent } from './child-agent.ts'
import { ChildPool } from './child-pool.ts'
import {
  decode,
  encode,
  type Blocks,
  type Content,
  type Hello,
  type RoundOrder,
  type TableName,
} from './messages.ts'

const [, , name = '', place = 'host', poolBytes = '0', tables = '[]'] = process.argv
const device = place === 'host' ? null : Number(place)
const pool = new ChildPool(device, Number(poolBytes))
const agent = await ChildAgent.open(
  { name, device, tables: JSON.parse(tables) as TableName[] },
  pool,
)

async function answer(command: string, words: readonly string[]): Promise<unknown> {
  switch (command) {
    case 'serve':
      return agent.serve()
    case 'connect':
      return agent.connect(decode<Hello>(words))
    case 'round':
      return agent.round(decode<RoundOrder>(words))
    case 'fill':
      return pool.fill(decode<Content>(words))
    case 'digest':
      return pool.digest(decode<Content>(words))
    case 'tier': {
      const { direction, ...blocks } = decode<Blocks & { direction: 'down' | 'up' }>(words)
      return pool.copyTier(direction, blocks)
    }
    case 'transports':
      return agent.transports()
    default:
      throw new Error(`unknown command ${command}`)
  }
}

const execute = async ([command = '', ...words]: readonly string[]): Promise<Words> => [
  encode((await answer(command, words)) ?? null),
]

await answerCommands(encode(await agent.hello()), execute)
await agent.close()
