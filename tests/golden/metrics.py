"""Prints the reference values of common/src/tally.rs's tests.

pip install scikit-learn==1.9.1; python tests/golden/metrics.py
AUC, log loss, accuracy and RMSE are scikit-learn's; calibration and normalised entropy (He et al.
2014, section 3) are their definitions in numpy.
"""

import numpy as np
from sklearn import metrics

n = np.arange(40)
score = ((37 * n) % 101 - 50) / 16.0
label = ((7 * n * n + n) % 5 < 2).astype(float)
weight = 1.0 + n % 3
probability = 1.0 / (1.0 + np.exp(-score))

base = np.average(label, weights=weight)
entropy = -base * np.log(base) - (1 - base) * np.log(1 - base)
log_loss = metrics.log_loss(label, probability, sample_weight=weight)

print("binary")
print("auc", repr(metrics.roc_auc_score(label, score, sample_weight=weight)))
print("log_loss", repr(log_loss))
print("accuracy", repr(metrics.accuracy_score(label, score > 0, sample_weight=weight)))
print("calibration", float(np.sum(weight * probability) / np.sum(weight * label)))
print("normalized_entropy", float(log_loss / entropy))

truth = (11 * n) % 13 / 4.0
print("real")
print("rmse", repr(metrics.root_mean_squared_error(truth, score, sample_weight=weight)))
print("calibration", float(np.sum(weight * score) / np.sum(weight * truth)))
