// Expects that `action` throws an Error with this code and a remedy. Returns the text of the error.
#pragma once

#include <gtest/gtest.h>

#include "schema/result.h"

namespace whence {

template <class Action>
std::string expect_error(Code code, Action action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.diagnostics().size(), 1u);
    EXPECT_EQ(label(error.diagnostics().front().code), label(code)) << error.what();
    EXPECT_FALSE(error.diagnostics().front().remedy.empty()) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "expected " << label(code) << ", but nothing was thrown";
  return "";
}

}  // namespace whence
