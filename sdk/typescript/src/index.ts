export { Approvals, Flows, SandboxFlows } from './audit.js'
export type {
  Approval,
  ApprovalOptions,
  Explanation,
  Flow,
  FlowFilter,
  FlowFollowOptions,
  FlowListOptions,
  Traffic,
  WhyOptions
} from './audit.js'
export { Atoll } from './client.js'
export { CodeContext, CodeError, RichResult } from './code.js'
export type {
  CodeFailure,
  ContextOptions,
  Execution,
  Language,
  ReplConfig,
  RunCodeOptions
} from './code.js'
export { CommandHandle } from './command_handle.js'
export { CommandError } from './command_result.js'
export type {
  Command,
  CommandInfo,
  CommandResult,
  OutputEvent,
  RunOptions,
  Signal,
  StartOptions,
  StdinData
} from './command_result.js'
export { Commands } from './commands.js'
export {
  AtollError,
  AuthenticationError,
  ConflictError,
  ConnectionError,
  InvalidRequestError,
  NotFoundError,
  PermissionDeniedError,
  RateLimitError,
  ServerError,
  TimeoutError
} from './errors.js'
export { Files } from './files.js'
export type {
  FileData,
  FileInfo,
  FileOptions,
  ReadOptions,
  Unpacked,
  WriteOptions
} from './files.js'
export type { components as Contract } from './generated/contract.js'
export type {
  MetricName,
  MetricSeries,
  MetricsOptions,
  SandboxMetrics,
  SandboxUsage
} from './metrics.js'
export { Pty, PtyHandle } from './pty.js'
export type { PtyOptions } from './pty.js'
export { Previews, Services } from './services.js'
export type { ExposeOptions, Preview, PreviewOptions, Service } from './services.js'
export { Sandbox } from './sandbox.js'
export type { RunCodeInSandboxOptions, WithConnection } from './sandbox.js'
export { Sandboxes } from './sandboxes.js'
export type {
  CreateOptions,
  ListOptions,
  Mount,
  Resources,
  SandboxInfo,
  SandboxSettings,
  SandboxStatus
} from './sandboxes.js'
export { Snapshots } from './state.js'
export type {
  CarriedInterpreter,
  Change,
  DiffOptions,
  ExportOptions,
  ForkOptions,
  Paused,
  PauseOptions,
  Resumed,
  SnapshotInfo,
  SnapshotOptions,
  TreeNode
} from './state.js'
export { Credentials } from './credentials.js'
export type { CredentialSecret, CredentialSource } from './credentials.js'
export type {
  WireEffectiveNetworkPolicy as EffectiveNetworkPolicy,
  WireNetworkPolicy as NetworkPolicy
} from './wire.js'
export { Volume, Volumes } from './volumes.js'
export type {
  AccessMode,
  S3Options,
  VolumeInfo,
  VolumeOptions,
  VolumeSettings,
  VolumeSnapshotInfo
} from './volumes.js'
export type { GlobResult, GrepMatch, GrepOptions, GrepResult, SearchOptions } from './search.js'
export { FileWatch } from './watch.js'
export type { WatchEvent, WatchOptions } from './watch.js'
export { BuildError, Templates } from './templates.js'
export type {
  AddOptions,
  BuildEvent,
  BuildOptions,
  Login,
  PullOptions,
  TemplateInfo
} from './templates.js'
export type { FileMap } from './tar.js'
export type { Duration } from './time.js'
export type { ConnectionOptions, RequestOptions } from './transport.js'
