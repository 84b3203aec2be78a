// EXPECT_MESSAGE(statement, Exception, text): the statement throws exactly that class (or one derived from
// it), and its message contains the text.
#pragma once
#include <gtest/gtest.h>

#include <string>

#define EXPECT_MESSAGE(statement, exception, text)                                                 \
  do {                                                                                             \
    try {                                                                                          \
      static_cast<void>(statement);                                                                \
      ADD_FAILURE() << "no " #exception " was thrown by " #statement;                              \
    } catch (const exception& expect_message_error) {                                              \
      EXPECT_NE(std::string(expect_message_error.what()).find(text), std::string::npos)            \
          << "message: " << expect_message_error.what() << "\nexpected it to contain: " << (text); \
    }                                                                                              \
  } while (false)
