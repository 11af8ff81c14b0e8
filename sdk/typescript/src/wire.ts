// Answers of the server as they are on the wire: names for the types generated from the contract.
import type { components } from './generated/contract.js'

type Schemas = components['schemas']

export type WireSandbox = Schemas['Sandbox']
export type WireSandboxConfig = Schemas['SandboxConfig']
export type WireSandboxCreate = Schemas['SandboxCreate']
export type WireSandboxClaim = Schemas['SandboxClaim']
export type WireSandboxClaims = Schemas['SandboxClaims']
export type WireSandboxMetrics = Schemas['SandboxMetrics']
export type WireSandboxList = Schemas['SandboxList']
export type WireContext = Schemas['Context']
export type WireContextCreate = Schemas['ContextCreate']
export type WireCommandEvent = Schemas['CommandEvent']
export type WireExit = Schemas['StreamExit']
export type WireExecEvent = Schemas['ExecEvent']
export type WireDone = Schemas['StreamDone']
export type WireFile = Schemas['FileInfo']
export type WireWatchLine = Schemas['FileWatchLine']
export type WireTemplate = Schemas['Template']
export type WireTemplateSpec = Schemas['TemplateSpec']
export type WireTemplateLog = Schemas['TemplateLogRecord']
