// SPDX-License-Identifier: Apache-2.0
//
// Tests of local sockets with attached descriptors, including misbehaving peers.
#include "base/fd_passing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include "base/text.h"

namespace ashlar {
namespace {

using std::chrono::milliseconds;

struct Pair {
  UniqueFd near;
  UniqueFd far;
};

Pair connected() {
  int ends[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
  return {UniqueFd(ends[0]), UniqueFd(ends[1])};
}

TEST(FdPassingTest, ReceivesCloseOnExecDescriptorWithMessage) {
  Pair pair = connected();
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(::write(file.get(), "stone", 5), 5);
  const std::array<uint8_t, 3> sent = {1, 2, 3};
  ASSERT_TRUE(send_message(pair.near.get(), sent, file.get(), milliseconds(1000)).ok());

  std::array<uint8_t, 8> buffer{};
  Result<ReceivedMessage> got = receive_message(pair.far.get(), buffer, milliseconds(1000));
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(got->bytes, 3u);
  EXPECT_EQ(buffer[2], 3);
  ASSERT_TRUE(got->fd.valid());
  EXPECT_NE(::fcntl(got->fd.get(), F_GETFD) & FD_CLOEXEC, 0);
  std::array<char, 6> text{};
  EXPECT_EQ(::pread(got->fd.get(), text.data(), 5, 0), 5);
  EXPECT_STREQ(text.data(), "stone");
}

TEST(FdPassingTest, ReceivesMessageWithoutDescriptor) {
  Pair pair = connected();
  ASSERT_TRUE(
      send_message(pair.near.get(), std::array<uint8_t, 1>{9}, -1, milliseconds(1000)).ok());
  std::array<uint8_t, 8> buffer{};
  Result<ReceivedMessage> got = receive_message(pair.far.get(), buffer, milliseconds(1000));
  ASSERT_TRUE(got.ok());
  EXPECT_FALSE(got->fd.valid());
}

TEST(FdPassingTest, ClosesDescriptorsAboveTheLimit) {
  Pair pair = connected();
  UniqueFd file(::memfd_create("test", MFD_CLOEXEC));
  const int before = ::dup(file.get());
  ::close(before);
  const int attached[2] = {file.get(), file.get()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(attached))] = {};
  uint8_t byte = 1;
  iovec part{&byte, 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(attached));
  std::memcpy(CMSG_DATA(header), attached, sizeof(attached));
  ASSERT_EQ(::sendmsg(pair.near.get(), &message, 0), 1);

  std::array<uint8_t, 8> buffer{};
  EXPECT_EQ(receive_message(pair.far.get(), buffer, milliseconds(1000)).status().kind(),
            StatusKind::kFormat);
  const int after = ::dup(file.get());
  ::close(after);
  EXPECT_EQ(after, before) << "the next free descriptor is another: some were leaked";
}

TEST(FdPassingTest, ReceivesDescriptorsInOrderUpToTheLimit) {
  Pair pair = connected();
  std::vector<UniqueFd> files;
  for (char name : {'a', 'b', 'c'}) {
    files.emplace_back(::memfd_create("test", MFD_CLOEXEC));
    ASSERT_EQ(::write(files.back().get(), &name, 1), 1);
  }
  const std::array<uint8_t, 2> sent = {7, 8};
  const milliseconds timeout(1000);
  ASSERT_TRUE(send_descriptors(pair.near.get(), sent, files, timeout).ok());
  std::array<uint8_t, 8> buffer{};
  Result<ReceivedDescriptors> got = receive_descriptors(pair.far.get(), buffer, 3, timeout);
  ASSERT_TRUE(got.ok()) << got.status().to_string();
  EXPECT_EQ(got->bytes, 2U);
  ASSERT_EQ(got->fds.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    char name = 0;
    EXPECT_EQ(::pread(got->fds[i].get(), &name, 1, 0), 1);
    EXPECT_EQ(name, "abc"[i]);
  }
  ASSERT_TRUE(send_descriptors(pair.near.get(), sent, files, timeout).ok());
  EXPECT_EQ(receive_descriptors(pair.far.get(), buffer, 2, timeout).status().kind(),
            StatusKind::kFormat);
  pair.near.reset();
  EXPECT_EQ(receive_descriptors(pair.far.get(), buffer, 2, timeout)->bytes, 0U);
}

TEST(FdPassingTest, FailsWhenTheKernelDropsDescriptors) {
  Pair pair = connected();
  std::vector<UniqueFd> files;
  for (int i = 0; i < 4; ++i) files.emplace_back(::memfd_create("test", MFD_CLOEXEC));
  const milliseconds timeout(1000);
  ASSERT_TRUE(send_descriptors(pair.near.get(), std::array<uint8_t, 1>{1}, files, timeout).ok());
  const UniqueFd next(::dup(pair.near.get()));
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit tight = before;
  // The limit allows three more descriptors than are open, but four are received. The limit is not
  // lower, because a sanitizer needs two descriptors itself.
  tight.rlim_cur = static_cast<rlim_t>(next.get()) + 4;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &tight), 0);
  std::array<uint8_t, 8> buffer{};
  const Result<ReceivedDescriptors> got = receive_descriptors(pair.far.get(), buffer, 4, timeout);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(got.status().kind(), StatusKind::kDeviceFault);
  EXPECT_EQ(got.status().code(), EMFILE);
}

TEST(FdPassingTest, TimesOutConnectingToFullBacklog) {
  const std::string name = text("ashlar-test-full-", ::getpid());
  Result<UniqueFd> listening = listen_abstract(name);
  ASSERT_TRUE(listening.ok());
  ASSERT_EQ(::listen(listening->get(), 0), 0);
  std::vector<UniqueFd> callers;
  Status last;
  while (last.ok() && callers.size() < 10) {
    Result<UniqueFd> caller = connect_abstract(name, milliseconds(20));
    last = caller.status();
    if (caller.ok()) callers.push_back(*std::move(caller));
  }
  EXPECT_FALSE(last.ok()) << "the backlog never filled";
}

TEST(FdPassingTest, TimesOutWithoutData) {
  Pair pair = connected();
  std::array<uint8_t, 8> buffer{};
  Result<ReceivedMessage> got = receive_message(pair.far.get(), buffer, milliseconds(20));
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.status().code(), ETIMEDOUT);
}

TEST(FdPassingTest, ReportsFormatErrorOnCloseAndOverlongMessage) {
  Pair pair = connected();
  ASSERT_TRUE(send_message(pair.near.get(), std::array<uint8_t, 9>{}, -1, milliseconds(1000)).ok());
  std::array<uint8_t, 8> buffer{};
  EXPECT_EQ(receive_message(pair.far.get(), buffer, milliseconds(1000)).status().kind(),
            StatusKind::kFormat);
  pair.near.reset();
  EXPECT_EQ(receive_message(pair.far.get(), buffer, milliseconds(1000)).status().kind(),
            StatusKind::kFormat);
}

TEST(FdPassingTest, StopsAcceptingWhenSignalled) {
  const std::string name = text("ashlar-test-", ::getpid());
  Result<UniqueFd> listening = listen_abstract(name);
  ASSERT_TRUE(listening.ok()) << listening.status().to_string();
  EXPECT_FALSE(listen_abstract(name).ok()) << "two listeners under one name";

  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  Result<UniqueFd> caller = connect_abstract(name, milliseconds(1000));
  ASSERT_TRUE(caller.ok());
  Result<UniqueFd> accepted = accept_or_stop(listening->get(), stop.get());
  ASSERT_TRUE(accepted.ok());
  ASSERT_TRUE(accepted->valid());
  Result<PeerCredentials> peer = peer_credentials(accepted->get());
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->uid, ::getuid());

  const uint64_t one = 1;
  ASSERT_EQ(::write(stop.get(), &one, sizeof(one)), 8);
  Result<UniqueFd> none = accept_or_stop(listening->get(), stop.get());
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->valid());
}

TEST(FdPassingTest, FailsImmediatelyWithoutListener) {
  const Result<UniqueFd> refused = connect_abstract("ashlar-test-no-listener", milliseconds(1000));
  EXPECT_EQ(refused.status().code(), ECONNREFUSED);
}

}  // namespace
}  // namespace ashlar
