// Runs the `whence` command for tests in processes forked from one that has already exported an archive. Loading
// LibTorch takes half a second, and the first use of LibTorch and ONNX another tenth of a second, but thousands of
// tests need them for only a few milliseconds of work.
//
//   command_server LISTENING_SOCKET ARCHIVE FOLDER
//
// The socket is an inherited descriptor. The server exports ARCHIVE into FOLDER before the first request, and ends when
// its standard input is closed.
//
// Each request is a connection. It sends three descriptors (standard input, output and error), a length of four bytes,
// and a text of that length, in which each string ends with a NUL: the working folder, the number of arguments, the
// arguments including the command's name, and the environment. The answer is two integers of four bytes: the process id
// when the process starts, and the status from waitpid when it ends. client.py is the client.
//
// The server has a single thread. The forked process calls the command's main, which CMakeLists.txt compiles under
// another name.
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <string>
#include <vector>

#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "schema/result.h"
#include "whence/export.h"

int whence_main(int argc, char** argv);  // of tools/whence/main.cpp

namespace {

sigset_t mask_before;  // at the start of the server

struct Request {
  int standard[3] = {-1, -1, -1};
  std::vector<std::string> strings;
};

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(EXIT_FAILURE);
}

void read_exactly(int connection, char* to, std::size_t size) {
  while (size > 0) {
    const ssize_t count = ::read(connection, to, size);
    if (count <= 0) fail("command_server: a request ended early");
    to += count;
    size -= static_cast<std::size_t>(count);
  }
}

// Receives the length and the descriptors, which arrive together.
std::uint32_t receive_descriptors(int connection, int (&standard)[3]) {
  std::uint32_t length = 0;
  iovec part{&length, sizeof length};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof standard)];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(connection, &message, MSG_WAITALL) != sizeof length) fail("command_server: no request");
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_len != CMSG_LEN(sizeof standard)) fail("command_server: no descriptors");
  const auto* descriptors = reinterpret_cast<const int*>(CMSG_DATA(header));
  std::copy(descriptors, descriptors + std::size(standard), standard);
  return length;
}

Request receive(int connection) {
  Request request;
  std::string text(receive_descriptors(connection, request.standard), '\0');
  read_exactly(connection, text.data(), text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\0', at);
    request.strings.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return request;
}

std::vector<char*> pointers(std::vector<std::string>::iterator from, std::vector<std::string>::iterator to) {
  std::vector<char*> result;
  for (; from != to; ++from) result.push_back(from->data());
  result.push_back(nullptr);
  return result;
}

// Runs in the forked process: sets up the state that exec would have set up, then runs the command.
[[noreturn]] void run(Request& request) {
  for (int number = 0; number < 3; ++number) {
    if (::dup2(request.standard[number], number) < 0) fail("command_server: dup2");
  }
  for (const int descriptor : request.standard) ::close(descriptor);
  std::signal(SIGCHLD, SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &mask_before, nullptr);
  if (::chdir(request.strings.at(0).c_str()) != 0) fail("command_server: chdir");
  const auto arguments_begin = request.strings.begin() + 2;
  const auto arguments_end = arguments_begin + std::stol(request.strings.at(1));
  std::vector<char*> arguments = pointers(arguments_begin, arguments_end);
  std::vector<char*> variables = pointers(arguments_end, request.strings.end());
  environ = variables.data();
  std::exit(whence_main(static_cast<int>(arguments.size()) - 1, arguments.data()));
}

void send(int connection, std::int32_t number) {
  [[maybe_unused]] const auto sent = ::send(connection, &number, sizeof number, MSG_NOSIGNAL);
}

struct Running {
  int connection = -1;
  pid_t process = -1;
};

// Forks the command. The files of other requests are already closed; the child closes their connections.
Running start(int listening, int connection, const std::vector<Running>& others) {
  Request request = receive(connection);
  const pid_t process = ::fork();
  if (process < 0) fail("command_server: fork");
  if (process == 0) {
    ::close(listening);
    ::close(connection);
    for (const Running& other : others) ::close(other.connection);
    run(request);
  }
  for (const int descriptor : request.standard) ::close(descriptor);
  send(connection, process);
  return {connection, process};
}

// Sends the statuses of the requests whose processes have ended.
void finish(std::vector<Running>& running) {
  int status = 0;
  while (const pid_t process = ::waitpid(-1, &status, WNOHANG)) {
    if (process < 0) return;  // no process ended
    const auto ended =
        std::find_if(running.begin(), running.end(), [&](const Running& each) { return each.process == process; });
    if (ended == running.end()) continue;
    send(ended->connection, status);
    ::close(ended->connection);
    running.erase(ended);
  }
}

// Exits if there are other threads: a fork copies only the calling thread, so their locks would stay locked forever.
void require_single_thread() {
  const std::filesystem::directory_iterator threads("/proc/self/task");
  if (std::distance(begin(threads), end(threads)) == 1) return;
  std::fputs("command_server: loading LibTorch has started threads, so this process cannot be forked\n", stderr);
  std::_Exit(EXIT_FAILURE);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return EXIT_FAILURE;
  const int listening = std::stoi(argv[1]);
  try {
    whence::export_archive(argv[2], std::string(argv[3]) + "/first.onnx");
  } catch (const whence::Error& error) {
    // If the recorder is missing, every request that needs it reports that.
    if (error.diagnostics().front().code != whence::Code::needs_libtorch) fail(error.what());
  }
  require_single_thread();
  // SIGCHLD is delivered only in ppoll.
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &ends, &mask_before);
  std::signal(SIGCHLD, [](int) {});
  std::vector<Running> running;
  pollfd watched[] = {{STDIN_FILENO, POLLIN, 0}, {listening, POLLIN, 0}};
  for (;;) {
    const int ready = ::ppoll(watched, std::size(watched), nullptr, &mask_before);
    if (ready < 0 && errno != EINTR) fail("command_server: ppoll");
    finish(running);
    if (ready <= 0) continue;
    if (watched[0].revents != 0) return EXIT_SUCCESS;
    if (watched[1].revents == 0) continue;
    const int connection = ::accept(listening, nullptr, nullptr);
    if (connection >= 0) running.push_back(start(listening, connection, running));
  }
}
