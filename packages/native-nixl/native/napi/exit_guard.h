// Ends native threads before the process does. Node runs environment cleanup hooks when an environment is
// torn down (natural end, worker_threads), but not on process.exit and not after an uncaught exception:
// those go straight to exit(), whose handlers would then run beside our live threads. So everything that
// owns threads is listed here, and an exit handler shuts down what is left.
#pragma once

namespace kvferry {

class ExitGuarded {
 public:
  virtual ~ExitGuarded() = default;
  /** Stops and joins the threads, bounded. False: a thread was left behind. */
  virtual bool shutdownAtExit() noexcept = 0;
};

/** JS threads; several environments at once. */
void guardAtExit(ExitGuarded* guarded);
void unguardAtExit(ExitGuarded* guarded);

/**
 * Moves our handler in front of those that a library registered while it was loaded (exit handlers run
 * last-registered-first). Called once the first agent is up.
 */
void renewExitHandler();

/** A thread was left behind: at exit, skip every later handler, since it would run beside that thread. */
void skipExitHandlers();

}  // namespace kvferry
