// A Kafka producer for `ackloss run --client`, with @platformatic/kafka (docs/how-to/any-client.md).
//
//   npm install
//   ackloss run clients/at-once --client "node client.js"
//
// `node client.js affected` uses the release before sends at the same time were numbered apart
// (platformatic/kafka#326): with idempotence all are acknowledged, and one is stored.

import { createInterface } from 'node:readline'

// Node.js has it from 22 on, and the library asks for it.
Promise.withResolvers ??= () => {
  const made = {}
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }))
  return made
}
const { Producer, clientSoftwareVersion: version } = await import(process.argv[2] ?? 'fixed')

const say = line => process.stdout.write(JSON.stringify(line) + '\n')

// Kafka's names of settings, and what the library makes of them. It has no limit for a whole
// delivery: a write ends when its retries do, so their number follows from the time that there is.
const KNOWN = ['acks', 'enable.idempotence', 'delivery.timeout.ms', 'request.timeout.ms', 'max.block.ms']
const RETRY_MS = 100

function settingsOf(producer) {
  const unknown = Object.keys(producer).find(key => !KNOWN.includes(key))
  if (unknown) throw new Error(`@platformatic/kafka has no setting ${unknown}`)
  const timeout = Number(producer['request.timeout.ms'])
  const delivery = Number(producer['delivery.timeout.ms'])
  return {
    acks: producer.acks === 'all' ? -1 : Number(producer.acks),
    idempotent: producer['enable.idempotence'] === 'true',
    timeout,
    retries: Math.max(0, Math.floor(delivery / (timeout + RETRY_MS)) - 1)
  }
}

function connected({ connection, client, start }) {
  const protocol = connection.properties?.['security.protocol'] ?? 'PLAINTEXT'
  if (protocol !== 'PLAINTEXT') throw new Error(`this example speaks plain text, not ${protocol}`)
  const { acks, ...settings } = settingsOf(connection.producer)
  const producer = new Producer({
    clientId: `ackloss-${client}.${start}`,
    bootstrapBrokers: connection.bootstrap_servers,
    connectTimeout: 1000,
    retryDelay: RETRY_MS,
    metadataMaxAge: 1000,
    ...settings
  })
  return { producer, acks } // the library heeds the acks of a send, not those of its producer
}

async function send({ producer, acks }, topic, op) {
  const value = Buffer.from(String(op.value).padStart(10, '0'))
  const key = op.key == null ? undefined : Buffer.from(op.key)
  try {
    const { offsets } = await producer.send({ acks, messages: [{ topic, partition: op.partition, key, value }] })
    const position = Number(offsets?.[0]?.offset ?? -1)
    say(position >= 0 ? { type: 'ok', id: op.id, position } : { type: 'ok', id: op.id })
  } catch (error) {
    // The error of the last attempt proves nothing about the attempts before it.
    say({ type: 'info', id: op.id, error: String(error.code ?? error.name).slice(0, 200) })
  }
}

let setup, client
const waiting = new Set()
for await (const line of createInterface({ input: process.stdin })) {
  const op = JSON.parse(line)
  if (op.type === 'setup') {
    setup = op
    try {
      client = connected(setup)
      await client.producer.metadata({ topics: [setup.connection.topic] })
    } catch (error) {
      say({ type: 'failed', error: String(error.message).slice(0, 200) })
      process.exit(0)
    }
    say({ type: 'ready', name: '@platformatic/kafka', version })
  } else if (op.type === 'close') {
    break
  } else {
    const sent = send(client, setup.connection.topic, op)
    waiting.add(sent)
    sent.finally(() => waiting.delete(sent))
  }
}
const limit = new Promise(resolve => setTimeout(resolve, 2000))
await Promise.race([Promise.all(waiting), limit])
process.exit(0)
