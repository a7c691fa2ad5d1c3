#include "annotator/app/tool_process.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <string_view>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "annotator/text/words.h"
#include "schema/child_process.h"
#include "schema/files/temporary_names.h"
#include "whence/diagnostics.h"

namespace whence::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t max_kept = 16384;  // bytes of a tool's output
constexpr std::size_t max_lines = 8, max_characters = 1500;
constexpr auto tick = std::chrono::milliseconds(20);    // polling interval for a quiet tool
constexpr auto grace_period = std::chrono::seconds(2);  // between SIGTERM and SIGKILL

struct Pipe {
  int read_end = -1, write_end = -1;

  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw Error(Code::over_limit, std::string("cannot create a pipe to the tool: ") + std::strerror(errno),
                  "close some files", {.stage = "run the tool"});
    }
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  static void close_end(int& end) {
    if (end >= 0) ::close(end);
    end = -1;
  }
};

// Executes the tool in the new process. Calls only functions that are safe in a signal handler.
[[noreturn]] void exec_tool(char* const* arguments, int output, int failure, pid_t parent) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(127);  // the parent ended before prctl()
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGXFSZ, SIG_DFL);  // whence ignores it
  const int nothing = ::open("/dev/null", O_RDONLY);
  if (nothing >= 0) ::dup2(nothing, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  ::execvp(arguments[0], arguments);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(failure, &error, sizeof error);
  ::_exit(127);
}

[[noreturn]] void fail_to_start(const std::string& program, int error) {
  const bool missing = error == ENOENT;
  throw Error(Code::missing_file,
              missing ? "no program " + program : "the program " + program + " cannot be run: " + std::strerror(error),
              missing ? "check its name, or use its path; activate the Python environment of the command"
                      : "check that it is a program with execute permission",
              {.file = program, .stage = "run the tool"});
}

// Starts the program and returns its process id.
pid_t start(const std::vector<std::string>& arguments, Pipe& output) {
  std::vector<std::string> words = arguments;
  const std::vector<char*> pointers = null_terminated(words);
  Pipe failure;
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) fail_to_start(arguments.front(), errno);
  if (child == 0) exec_tool(pointers.data(), output.write_end, failure.write_end, parent);
  ::setpgid(child, child);  // parent and child both call it, as either may run first
  Pipe::close_end(output.write_end);
  Pipe::close_end(failure.write_end);
  int error = 0;
  ssize_t size = 0;
  do {
    size = ::read(failure.read_end, &error, sizeof error);
  } while (size < 0 && errno == EINTR);
  if (size != sizeof error) return child;
  while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  fail_to_start(arguments.front(), error);
}

class RunningTool {
 public:
  RunningTool(pid_t process, int output, bool show_words)
      : process_(process), output_(output), show_words_(show_words) {
    ::fcntl(output_, F_SETFL, O_NONBLOCK);
  }

  // Waits a tick for output or the end. Returns true if the tool has ended.
  bool wait(int& status) {
    pollfd words{output_, POLLIN, 0};
    if (output_ >= 0) {
      if (::poll(&words, 1, tick.count()) > 0) read_words();
    } else {
      ::poll(nullptr, 0, tick.count());
    }
    if (::waitpid(process_, &status, WNOHANG) != process_) return false;
    read_words();  // does not wait for the end of the pipe: a child of the tool may keep it open
    return true;
  }

  // Sends SIGTERM to the tool's process group, then SIGKILL.
  void kill(int& status) {
    ::kill(-process_, SIGTERM);
    const auto end = Clock::now() + grace_period;
    bool ended = false;
    while (!ended && Clock::now() < end) ended = wait(status);
    ::kill(-process_, SIGKILL);
    while (!ended) ended = wait(status);
  }

  const std::string& text() const { return text_; }

 private:
  void read_words() {
    char buffer[4096];
    ssize_t size = 0;
    while (output_ >= 0 && (size = ::read(output_, buffer, sizeof buffer)) > 0) {
      const auto count = static_cast<std::size_t>(size);
      if (show_words_) [[maybe_unused]]
        const auto written = ::write(STDERR_FILENO, buffer, count);
      text_.append(buffer, count);
      if (text_.size() > 2 * max_kept) text_.erase(0, text_.size() - max_kept);
    }
    if (size == 0) output_ = -1;  // the tool closed its output but may still run
  }

  pid_t process_;
  int output_;
  bool show_words_;
  std::string text_;
};

// Returns the last non-blank lines as "a | b". Keeps only the last state of a line that a progress bar overwrites.
std::string last_lines(const std::string& text) {
  const auto is_blank = [](std::string_view line) { return line.find_first_not_of(" \t") == std::string_view::npos; };
  std::vector<std::string> lines = text::split(text, '\n');
  for (std::string& line : lines) {
    while (!line.empty() && line.back() == '\r') line.pop_back();
    line.erase(0, line.rfind('\r') + 1);
    line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
  }
  std::erase_if(lines, is_blank);
  std::string words;
  for (std::size_t i = lines.size() - std::min(lines.size(), max_lines); i < lines.size(); ++i) {
    words += (words.empty() ? "" : " | ") + lines[i];
  }
  return words.size() <= max_characters ? words : "..." + words.substr(words.size() - max_characters);
}

}  // namespace

ToolEnd run_tool(const std::vector<std::string>& arguments, const ToolLimits& limits) {
  Pipe output;
  RunningTool tool(start(arguments, output), output.read_end, limits.show_words);
  const auto began = Clock::now();
  ToolEnd end;
  while (!tool.wait(end.status)) {
    end.stopped = PostponedStops::is_stop_pending();
    end.timed_out = limits.timeout > 0 && std::chrono::duration<double>(Clock::now() - began).count() > limits.timeout;
    if (!end.stopped && !end.timed_out) continue;
    tool.kill(end.status);
    break;
  }
  end.words = last_lines(tool.text());
  return end;
}

std::string ending_text(int status) {
  if (!WIFSIGNALED(status)) return "status " + std::to_string(WEXITSTATUS(status));
  return "signal " + std::to_string(WTERMSIG(status)) + " (" + ::strsignal(WTERMSIG(status)) + ")";
}

}  // namespace whence::app
