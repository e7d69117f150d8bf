// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "launcher/preempt/verdicts.h"

namespace hvd {

std::string preempt_report_text(const std::vector<PreemptLine>& lines);
std::string preempt_report_json(const PreemptSeen& seen, const std::vector<PreemptLine>& lines);

}  // namespace hvd
